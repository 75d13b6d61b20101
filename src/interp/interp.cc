#include "interp/interp.h"

#include <fmt/format.h>

#include "interp/evaluate.h"

namespace isomer::interp {
namespace {

Diagnostic in_node(Diagnostic d, const ir::Graph& g, const ir::Node& n) {
  if (d.notes.size() < 8)
    d.note(fmt::format("in node {} ({}) of graph {}", quoted(n.label.empty() ? n.names[0] : n.label), n.op->name,
                       quoted(g.name())));
  return d;
}

// A given value against the declared type of its input: numbers must agree, a symbol must mean one number throughout.
Expected<void> check_input(const ir::Node& input, const Tensor& value,
                           std::unordered_map<std::string, int64_t>& symbols) {
  const Type& declared = input.types[0];
  const auto wrong = [&] {
    return Diagnostic("E-input-type",
                      fmt::format("input {} is declared {}, the value given is {}", quoted(input.names[0]),
                                  declared.to_string(), value.type().to_string()));
  };
  if (value.dtype() != declared.dtype) return wrong();
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

class Executor {
 public:
  Executor(const ir::OpTable& table, const Options& options) : table_(table), options_(options), session_(options) {}

  Expected<std::vector<Tensor>> run(const ir::Graph& g, const std::vector<Tensor>& inputs) {
    if (++depth_ > 64) return Diagnostic("E-nesting", "graphs are nested more than 64 deep");
    auto result = run_graph(g, inputs);
    --depth_;
    return result;
  }

  Expected<std::vector<Tensor>> run_node(const ir::OpContext& given) {
    ir::OpContext c = given;
    c.set_runner([this](const ir::Graph& body, std::vector<Tensor> values) { return run(body, values); });
    const ir::OpDef& op = c.op();
    if (op.kernel) return op.kernel(c);
    if (op.compute) {
      ISOMER_TRY(const te::Program program, op.compute(c));
      std::vector<const Tensor*> values;
      for (size_t i = 0; i < c.input_count(); ++i) values.push_back(c.value(i));
      return evaluate(program, values, session_);
    }
    if (op.expand || !op.expand_text.empty()) {
      ISOMER_TRY(const ir::Graph body, ir::expand(c));
      std::vector<Tensor> values;
      for (size_t i = 0; i < c.input_count(); ++i)
        if (c.has(i)) values.push_back(*c.value(i));
      return run(body, values);
    }
    return Diagnostic("E-unsupported",
                      fmt::format("operator {} cannot be run: Isomer has no meaning for it", quoted(op.name)));
  }

 private:
  Expected<std::vector<Tensor>> run_graph(const ir::Graph& g, const std::vector<Tensor>& inputs) {
    if (inputs.size() != g.input_count())
      return Diagnostic("E-input-count", fmt::format("graph {} has {} inputs, {} values are given", quoted(g.name()),
                                                     g.input_count(), inputs.size()));
    const std::vector<uint32_t> last = last_uses(g);
    std::vector<std::vector<Tensor>> values(g.nodes().size());
    std::vector<std::vector<uint32_t>> dies(g.nodes().size());
    for (uint32_t i = 0; i < last.size(); ++i)
      if (last[i] != UINT32_MAX) dies[last[i]].push_back(i);
    std::unordered_map<std::string, int64_t> symbols;
    for (uint32_t i = 0; i < g.nodes().size(); ++i) {
      const ir::Node& n = g.node(i);
      if (i < g.input_count()) {
        ISOMER_CHECK_OK(check_input(n, inputs[i], symbols));
        values[i] = {inputs[i]};
      } else if (const Tensor* t = n.attrs.get<Tensor>("value"); t && n.op == &ir::const_op()) {
        values[i] = {*t};
      } else {
        auto result = run_graph_node(n, values);
        if (!result.ok()) return in_node(std::move(result).error(), g, n);
        values[i] = *std::move(result);
      }
      for (uint32_t d : dies[i]) values[d].clear();
    }
    std::vector<Tensor> out;
    for (const ir::Output& o : g.outputs()) out.push_back(values[o.value.node].at(o.value.index));
    return out;
  }

  Expected<std::vector<Tensor>> run_graph_node(const ir::Node& n, const std::vector<std::vector<Tensor>>& values) {
    std::vector<ir::OpContext::Input> in;
    for (const ir::Value& v : n.inputs) {
      ir::OpContext::Input i;
      if (!v.is_none()) {
        const Tensor& t = values[v.node].at(v.index);
        i = {true, t.type(), &t, nullptr};
      }
      in.push_back(std::move(i));
    }
    const ir::OpContext c(*n.op, std::move(in), n.attrs, n.types.size(), table_);
    // Types are inferred again from the values at hand: a lie in a file is found before a kernel sees it.
    ISOMER_TRY(const std::vector<Type> types, ir::infer_types(c));
    for (const Type& t : types)
      if (t.shape.is_static()) {
        ISOMER_TRY(const int64_t elements, checked_elements(t.dtype, t.shape.values()));
        if (elements * static_cast<int64_t>(std::max<size_t>(1, size_of(t.dtype))) > options_.max_value_bytes)
          return Diagnostic("E-too-large", fmt::format("a value {} is larger than the limit of {} bytes", t.to_string(),
                                                       options_.max_value_bytes));
      }
    return run_node(c);
  }

  const ir::OpTable& table_;
  const Options& options_;
  Session session_;
  int depth_ = 0;
};

}  // namespace

Expected<std::vector<Tensor>> run(const ir::Graph& graph, const ir::OpTable& table, const std::vector<Tensor>& inputs,
                                  const Options& options) {
  return Executor(table, options).run(graph, inputs);
}

Expected<std::vector<Tensor>> run_node(const ir::OpContext& context, const Options& options) {
  return Executor(context.table(), options).run_node(context);
}

}  // namespace isomer::interp
