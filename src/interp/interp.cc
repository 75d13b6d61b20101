#include "interp/interp.h"

#include <fmt/format.h>

#include "interp/evaluate.h"

namespace isomer::interp {
namespace {

Diagnostic in_node(Diagnostic d, const ir::Graph& g, const ir::Node& n) {
  const std::string name = !n.label.empty() || n.names.empty() ? n.label : n.names[0];  // a node may have no results
  if (d.notes.size() < 8)
    d.note(fmt::format("in node {} ({}) of graph {}", quoted(name), n.op->name, quoted(g.name())));
  return d;
}

// A given value against the declared type of its input: numbers must agree, a symbol must mean one number throughout.
Expected<void> check_input(const ir::Node& input, const Tensor& value,
                           std::unordered_map<std::string, int64_t>& symbols, bool wide) {
  const Type& declared = input.types[0];
  const auto wrong = [&] {
    return Diagnostic("E-input-type",
                      fmt::format("input {} is declared {}, the value given is {}", quoted(input.names[0]),
                                  declared.to_string(), value.type().to_string()));
  };
  const bool widened = wide && declared.dtype == DType::F32 && value.dtype() == DType::F64;
  if (value.dtype() != declared.dtype && !widened) return wrong();
  if (!declared.shape.has_rank()) return {};
  if (declared.shape.rank() != value.rank()) return wrong();
  for (size_t i = 0; i < value.rank(); ++i) {
    const Dim& d = declared.shape[i];
    if (d.is_const() && d.value() != value.dims()[i]) return wrong();
    if (const auto s = d.as_symbol()) {
      const auto [it, fresh] = symbols.emplace(*s, value.dims()[i]);
      if (!fresh && it->second != value.dims()[i])
        return Diagnostic("E-input-type", fmt::format("dimension {} is {} in one input and {} in input {}", quoted(*s),
                                                      it->second, value.dims()[i], quoted(input.names[0])));
    }
  }
  return {};
}

// For each node, the last node that reads one of its results; outputs are read at the end.
std::vector<uint32_t> last_uses(const ir::Graph& g) {
  std::vector<uint32_t> last(g.nodes().size(), 0);
  for (uint32_t i = 0; i < g.nodes().size(); ++i) {
    last[i] = i;
    for (const ir::Value& v : g.node(i).inputs)
      if (!v.is_none()) last[v.node] = i;
  }
  for (const ir::Output& o : g.outputs()) last[o.value.node] = UINT32_MAX;
  return last;
}

// A value as it is stored; in wide mode an F64 tensor may stand for a value of type f32.
struct Held {
  Tensor tensor;
  DType declared;
};

// Contents that operators look at while types are inferred (axes, scales) are small; larger ones are not narrowed for it.
constexpr int64_t kLookedAt = 256;

class Executor {
 public:
  Executor(const ir::OpTable& table, const Options& options) : table_(table), options_(options), session_(options) {}

  Expected<std::vector<Tensor>> run(const ir::Graph& g, const std::vector<Tensor>& inputs) {
    if (++depth_ > 64) {
      --depth_;
      return Diagnostic("E-nesting", "graphs are nested more than 64 deep");
    }
    const int64_t held = session_.live_bytes;
    auto result = run_graph(g, inputs);
    session_.live_bytes = held;
    --depth_;
    return result;
  }

  Expected<std::vector<Tensor>> run_node(const ir::OpContext& c) {
    std::vector<const Tensor*> values;
    for (size_t i = 0; i < c.input_count(); ++i) values.push_back(c.value(i));
    return run_op(c, values);
  }

  // Outputs of the whole run: in wide mode every f32 value leaves as f64, whoever made it.
  std::vector<Tensor> finished(std::vector<Tensor> outputs) const {
    if (options_.wide)
      for (Tensor& t : outputs)
        if (t.dtype() == DType::F32) t = t.cast(DType::F64);
    return outputs;
  }

 private:
  // `values`: the inputs as they are stored; the context has them by their declared types.
  Expected<std::vector<Tensor>> run_op(const ir::OpContext& given, const std::vector<const Tensor*>& values) {
    ir::OpContext c = given;
    c.set_runner([this](const ir::Graph& body, std::vector<Tensor> inputs) {
      return options_.body ? options_.body(body, inputs) : run_body(body, inputs);
    });
    c.set_loop_limit(options_.max_loop_iterations);
    const ir::OpDef& op = c.op();
    if (op.kernel) return op.kernel(c);
    if (op.compute) {
      ISOMER_TRY(const te::Program program, op.compute(c));
      return evaluate(program, values, session_);
    }
    if (op.expand || !op.expand_text.empty()) {
      ISOMER_TRY(const ir::Graph body, ir::expand(c));
      std::vector<Tensor> inputs;
      for (size_t i = 0; i < c.input_count(); ++i)
        if (c.has(i)) inputs.push_back(*values[i]);
      return run(body, inputs);
    }
    return Diagnostic("E-unsupported",
                      fmt::format("operator {} cannot be run: Isomer has no meaning for it", quoted(op.name)));
  }

  // A kernel's body: its results go back to the kernel, which knows declared types only.
  Expected<std::vector<Tensor>> run_body(const ir::Graph& body, const std::vector<Tensor>& inputs) {
    ISOMER_TRY(std::vector<Tensor> results, run(body, inputs));
    for (size_t i = 0; options_.wide && i < results.size(); ++i) {
      const ir::Value& v = body.outputs()[i].value;
      results[i] = results[i].cast(body.node(v.node).types.at(v.index).dtype);
    }
    return results;
  }

  Expected<std::vector<Tensor>> run_graph(const ir::Graph& g, const std::vector<Tensor>& inputs) {
    ISOMER_CHECK_OK(check_inputs(g, inputs, options_.wide));
    const std::vector<uint32_t> last = last_uses(g);
    std::vector<std::vector<Held>> values(g.nodes().size());
    std::vector<std::vector<uint32_t>> dies(g.nodes().size());
    for (uint32_t i = 0; i < last.size(); ++i)
      if (last[i] != UINT32_MAX) dies[last[i]].push_back(i);
    size_t done = 0, total = 0;
    for (const ir::Node& n : g.nodes()) total += ir::is_computed(n);
    for (uint32_t i = 0; i < g.nodes().size(); ++i) {
      const ir::Node& n = g.node(i);
      if (i < g.input_count()) {
        values[i] = {{inputs[i], n.types[0].dtype}};
      } else if (const Tensor* t = n.attrs.get<Tensor>("value"); t && n.op == &ir::const_op()) {
        values[i] = {{*t, t->dtype()}};
      } else {
        if (session_.late()) return in_node(timeout_diagnostic(), g, n);
        auto result = run_graph_node(n, values);
        if (!result.ok()) return in_node(std::move(result).error(), g, n);
        values[i] = *std::move(result);
        session_.live_bytes += bytes_of(values[i]);
        if (depth_ == 1 && options_.progress) options_.progress(++done, total);
      }
      for (uint32_t d : dies[i]) {
        const bool own = d >= g.input_count() && g.node(d).op != &ir::const_op();
        if (own) session_.live_bytes -= bytes_of(values[d]);
        values[d].clear();
      }
    }
    std::vector<Tensor> out;
    for (const ir::Output& o : g.outputs()) out.push_back(values[o.value.node].at(o.value.index).tensor);
    return out;
  }
  static int64_t bytes_of(const std::vector<Held>& values) {
    int64_t total = 0;
    for (const Held& h : values) total += static_cast<int64_t>(h.tensor.byte_size());
    return total;
  }

  Expected<std::vector<Held>> run_graph_node(const ir::Node& n, const std::vector<std::vector<Held>>& values) {
    std::vector<ir::OpContext::Input> in;
    std::vector<const Tensor*> stored;
    std::vector<Tensor> narrowed;
    narrowed.reserve(n.inputs.size());  // the context points into it
    for (const ir::Value& v : n.inputs) {
      ir::OpContext::Input i;
      const Tensor* t = nullptr;
      if (!v.is_none()) {
        const Held& held = values[v.node].at(v.index);
        t = &held.tensor;
        i = {true, {held.declared, Shape::of(t->dims()), nullptr}, t, nullptr};
        if (t->dtype() != held.declared && (n.op->kernel || t->size() <= kLookedAt)) {
          narrowed.push_back(t->cast(held.declared));
          i.value = &narrowed.back();
        }
      }
      in.push_back(std::move(i));
      stored.push_back(t);
    }
    const ir::OpContext c(*n.op, std::move(in), n.attrs, n.types.size(), table_);
    // Types are inferred again from the values at hand: a lie in a file is found before a kernel sees it.
    ISOMER_TRY(const std::vector<Type> types, ir::infer_types(c));
    for (const Type& t : types) {
      if (!t.shape.is_static()) continue;
      ISOMER_TRY(const int64_t elements, checked_elements(t.dtype, t.shape.values()));
      ISOMER_CHECK_OK(session_.admit("a value " + t.to_string(),
                                     elements * static_cast<int64_t>(std::max<size_t>(1, size_of(t.dtype)))));
    }
    ISOMER_TRY(std::vector<Tensor> results, run_op(c, stored));
    std::vector<Held> out;
    for (size_t i = 0; i < results.size(); ++i) {
      const DType made = results[i].dtype();
      const bool widened = options_.wide && i < types.size() && types[i].dtype == DType::F32 && made == DType::F64;
      out.push_back({std::move(results[i]), widened ? DType::F32 : made});
    }
    return out;
  }

  const ir::OpTable& table_;
  const Options& options_;
  Session session_;
  int depth_ = 0;
};

}  // namespace

Expected<std::vector<Tensor>> run(const ir::Graph& graph, const ir::OpTable& table, const std::vector<Tensor>& inputs,
                                  const Options& options) {
  Executor executor(table, options);
  ISOMER_TRY(std::vector<Tensor> outputs, executor.run(graph, inputs));
  return executor.finished(std::move(outputs));
}

Expected<void> check_inputs(const ir::Graph& g, const std::vector<Tensor>& inputs, bool wide) {
  if (inputs.size() != g.input_count())
    return Diagnostic("E-input-count", fmt::format("graph {} has {} inputs, {} values are given", quoted(g.name()),
                                                   g.input_count(), inputs.size()));
  std::unordered_map<std::string, int64_t> symbols;
  for (size_t i = 0; i < inputs.size(); ++i) ISOMER_CHECK_OK(check_input(g.inputs()[i], inputs[i], symbols, wide));
  return {};
}

Expected<std::vector<Tensor>> run_node(const ir::OpContext& context, const Options& options) {
  Executor executor(context.table(), options);
  ISOMER_TRY(std::vector<Tensor> outputs, executor.run_node(context));
  return executor.finished(std::move(outputs));
}

}  // namespace isomer::interp
