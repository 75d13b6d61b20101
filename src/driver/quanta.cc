#include "driver/quanta.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "driver/piece.h"
#include "interp/evaluate.h"
#include "ir/context.h"
#include "ops/table.h"
#include "te/program.h"

namespace isomer::driver {
namespace {

using te::Expr;
using te::Kind;

bool is_narrow(DType t) { return t == DType::U8 || t == DType::I8 || t == DType::U16 || t == DType::I16; }

// Without the rounding at its top; empty when there is none.
Expr before_rounding(const Expr& e) {
  if (e->kind == Kind::Unary && e->unary == te::UnaryOp::Round) return e->args[0];
  const bool sum = e->kind == Kind::Binary && e->binary == te::BinaryOp::Add;
  if (!sum && e->kind != Kind::Cast) return {};
  const Expr inner = is_float(e->args[0].dtype()) ? before_rounding(e->args[0]) : Expr();
  if (inner.empty()) return {};
  return sum ? inner + te::cast(inner.dtype(), e->args[1]) : te::cast(e.dtype(), inner);
}

// What one result of a node is rounded from.
struct Rounding {
  uint32_t node;
  uint32_t result;
  te::Program program;  // gives the number before it is rounded, in double
};

std::vector<Rounding> roundings(const ir::Graph& g) {
  std::vector<Rounding> out;
  for (uint32_t id = 0; id < g.nodes().size(); ++id) {
    const ir::Node& n = g.node(id);
    const bool narrow = std::any_of(n.types.begin(), n.types.end(), [](const Type& t) { return is_narrow(t.dtype); });
    if (!narrow || !n.op->compute) continue;
    const auto p = n.op->compute(ir::context_of(g, n, ops::table()));
    if (!p.ok()) continue;
    for (uint32_t k = 0; k < n.types.size() && k < p->outputs.size(); ++k) {
      const int slot = p->outputs[k] - static_cast<int>(p->inputs.size());
      if (slot < 0 || !is_narrow(n.types[k].dtype) || n.names[k].empty()) continue;
      Rounding r{id, k, *p};
      te::Stage stage = p->stages[static_cast<size_t>(slot)];
      if (stage.body->kind != Kind::Cast || !is_float(stage.body->args[0].dtype())) continue;
      const Expr number = before_rounding(stage.body->args[0]);
      if (number.empty()) continue;
      stage.body = te::cast(DType::F64, number);
      stage.dtype = DType::F64;
      r.program.stages.push_back(std::move(stage));
      r.program.outputs = {static_cast<int>(p->inputs.size() + r.program.stages.size()) - 1};
      out.push_back(std::move(r));
    }
  }
  return out;
}

// The graph once with all rounded values as results, and once with them as inputs and what they are rounded from as results.
class Cuts {
 public:
  Cuts(const ir::Graph& g, const std::vector<Rounding>& list) : g_(g) {
    for (const Rounding& r : list) {
      if (by_node_.emplace(r.node, by_node_.size()).second) nodes_.push_back(r.node);
    }
  }
  const std::vector<uint32_t>& nodes() const { return nodes_; }
  bool is_cut(ir::Value v) const { return by_node_.count(v.node) > 0; }

  Expected<ir::Graph> with_results() const {
    ir::GraphBuilder b(ops::table(), g_.name());
    ISOMER_TRY(const Values values, copy(b, false));
    for (size_t i = 0; i < g_.outputs().size(); ++i)
      b.output(fmt::format("out{}", i), values.at(g_.outputs()[i].value));
    for (const uint32_t id : nodes_)
      for (uint32_t k = 0; k < g_.node(id).types.size(); ++k)
        if (!g_.node(id).names[k].empty()) b.output(fmt::format("rounded{}_{}", id, k), values.at({id, k}));
    return std::move(b).finish();
  }
  // `wanted`: the values that its outputs are.
  Expected<ir::Graph> with_inputs(std::vector<ir::Value>& wanted) const {
    ir::GraphBuilder b(ops::table(), g_.name());
    ISOMER_TRY(const Values values, copy(b, true));
    const auto want = [&](ir::Value v) {
      if (v.is_none() || g_.node(v.node).op == &ir::const_op() || v.node < g_.input_count() || is_cut(v)) return;
      if (std::find(wanted.begin(), wanted.end(), v) != wanted.end()) return;
      wanted.push_back(v);
      b.output(fmt::format("wanted{}", wanted.size()), values.at(v));
    };
    for (const ir::Output& o : g_.outputs()) want(o.value);
    for (const uint32_t id : nodes_)
      for (const ir::Value& v : g_.node(id).inputs) want(v);
    return std::move(b).finish();
  }

 private:
  using Values = std::map<ir::Value, ir::Value>;

  Expected<Values> copy(ir::GraphBuilder& b, bool cut) const {
    Values values;
    for (uint32_t i = 0; i < g_.input_count(); ++i) {
      ISOMER_TRY(values[{i}], b.input(g_.node(i).names[0], g_.node(i).types[0]));
    }
    for (const uint32_t id : nodes_)
      for (uint32_t k = 0; cut && k < g_.node(id).types.size(); ++k) {
        if (g_.node(id).names[k].empty()) continue;
        ISOMER_TRY((values[{id, k}]), b.input(fmt::format("rounded{}_{}", id, k), g_.node(id).types[k]));
      }
    for (auto i = static_cast<uint32_t>(g_.input_count()); i < g_.nodes().size(); ++i) {
      const ir::Node& n = g_.node(i);
      if (n.op == &ir::const_op()) {
        values[{i}] = b.constant(*n.attrs.get<Tensor>("value"), n.names[0]);
        continue;
      }
      if (cut && by_node_.count(i)) continue;
      std::vector<ir::Value> in;
      for (const ir::Value& v : n.inputs) in.push_back(v.is_none() ? v : values.at(v));
      ISOMER_TRY(const std::vector<ir::Value> made,
                 b.add(*n.op, std::move(in), n.attrs, {n.names, n.label, n.origin}, n.types.size()));
      for (uint32_t k = 0; k < made.size(); ++k) values[{i, k}] = made[k];
    }
    return values;
  }

  const ir::Graph& g_;
  std::vector<uint32_t> nodes_;
  std::map<uint32_t, size_t> by_node_;
};

Expected<std::vector<Tensor>> run(const ir::Graph& g, const std::vector<Tensor>& inputs, const ExecutorOptions& o) {
  ISOMER_TRY(Executor e, Executor::make(g, o));
  return e.run(inputs);
}

}  // namespace

RoundedValue judged(const std::string& name, const Tensor& found, const Tensor& number, double tolerance) {
  RoundedValue out;
  out.name = name;
  out.elements = found.size();
  const auto low = static_cast<double>(lowest_int(found.dtype())),
             high = static_cast<double>(highest_int(found.dtype()));
  const auto wanted = [&](int64_t i) {
    const double r = number.real(i);
    return std::isnan(r) ? 0.0 : std::clamp(r, low, high);
  };
  double largest = 0;
  for (int64_t i = 0; i < found.size(); ++i) largest = std::max(largest, std::abs(wanted(i)));
  for (int64_t i = 0; i < found.size(); ++i) {
    const double r = wanted(i), q = static_cast<double>(found.integer(i)), off = std::abs(q - r);
    out.most = std::max(out.most, off);
    if (q == std::nearbyint(r)) continue;
    ++out.moved;
    if (off > 0.5 + tolerance * largest) ++out.wrong;
  }
  return out;
}

int64_t Quanta::moved() const {
  int64_t n = 0;
  for (const RoundedValue& v : values) n += v.moved;
  return n;
}
int64_t Quanta::wrong() const {
  int64_t n = 0;
  for (const RoundedValue& v : values) n += v.wrong;
  return n;
}
int64_t Quanta::elements() const {
  int64_t n = 0;
  for (const RoundedValue& v : values) n += v.elements;
  return n;
}

Expected<std::optional<Quanta>> quanta(const ir::Graph& graph, const std::vector<Tensor>& inputs,
                                       const ExecutorOptions& compiled, const ExecutorOptions& reference,
                                       double tolerance) {
  std::vector<Type> types;
  for (const Tensor& t : inputs) types.push_back(t.type());
  ISOMER_TRY(const ir::Graph g, specialise(graph, types, {}));
  const std::vector<Rounding> list = roundings(g);
  if (list.empty()) return std::optional<Quanta>();
  const Cuts cuts(g, list);
  ISOMER_TRY(const ir::Graph whole, cuts.with_results());
  ISOMER_TRY(const std::vector<Tensor> results, run(whole, inputs, compiled));
  std::map<ir::Value, const Tensor*> have;  // what is found, and what the reference makes of it
  std::vector<Tensor> given = inputs;
  for (uint32_t i = 0; i < inputs.size(); ++i) have[{i}] = &inputs[i];
  size_t at = g.outputs().size();
  for (const uint32_t id : cuts.nodes())
    for (uint32_t k = 0; k < g.node(id).types.size(); ++k) {
      if (g.node(id).names[k].empty()) continue;
      have[{id, k}] = &results[at];
      given.push_back(results[at++]);
    }
  std::vector<ir::Value> wanted;
  ISOMER_TRY(const ir::Graph parts, cuts.with_inputs(wanted));
  std::vector<Tensor> made;
  if (!wanted.empty()) {
    ISOMER_TRY(made, run(parts, given, reference));
  }
  for (size_t i = 0; i < wanted.size(); ++i) have[wanted[i]] = &made[i];
  Quanta out;
  for (size_t i = 0; i < g.outputs().size(); ++i) {
    const ir::Value v = g.outputs()[i].value;
    const auto it = std::find(wanted.begin(), wanted.end(), v);
    out.found.emplace_back(it == wanted.end() ? std::nullopt : std::optional(results[i]));
    out.expected.emplace_back(it == wanted.end() ? std::nullopt : std::optional(*have.at(v)));
  }
  for (const Rounding& r : list) {
    std::vector<const Tensor*> in;
    std::vector<Tensor> constants;
    constants.reserve(g.node(r.node).inputs.size());
    for (const ir::Value& v : g.node(r.node).inputs) {
      if (v.is_none()) {
        in.push_back(nullptr);
      } else if (g.node(v.node).op == &ir::const_op()) {
        in.push_back(&constants.emplace_back(*g.node(v.node).attrs.get<Tensor>("value")));
      } else {
        in.push_back(have.at(v));
      }
    }
    in.resize(std::max(in.size(), r.program.inputs.size()), nullptr);
    ISOMER_TRY(const std::vector<Tensor> number, interp::evaluate(r.program, in, interp::Options{}));
    const ir::Value v{r.node, r.result};
    out.values.push_back(judged(g.value_name(v), *have.at(v), number.at(0), tolerance));
  }
  return std::optional(std::move(out));
}

}  // namespace isomer::driver
