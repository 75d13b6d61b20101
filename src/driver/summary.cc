#include "driver/summary.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/arithmetic.h"
#include "ir/context.h"
#include "ops/table.h"

namespace isomer::driver {
namespace {

// A record that takes any attribute only carries nodes from file to file.
bool runnable(const ir::OpDef& op) { return !op.open_attrs; }

Dim volume(std::span<const te::Axis> axes) {
  Dim n(1);
  for (const te::Axis& a : axes) n = n * a.extent;
  return n;
}

// Points at which sums of products are evaluated inside `e`, per evaluation of `e`.
Dim products_summed(const te::Expr& e) {
  Dim total(0);
  if (e->kind == te::Kind::Reduce && e->combiner == te::Combiner::Sum) {
    const te::Expr& body = e->args[0];
    if (body->kind == te::Kind::Binary && body->binary == te::BinaryOp::Mul) total = volume(e->axes);
  }
  for (const te::Expr& x : e->args) {
    const Dim inner = products_summed(x);
    if (!(inner == Dim(0))) total = total + (e->kind == te::Kind::Reduce ? inner * volume(e->axes) : inner);
  }
  return total;
}

std::optional<int64_t> graph_macs(const ir::Graph& g, int depth);

std::optional<int64_t> node_macs(const ir::Graph& g, const ir::Node& n, int depth) {
  const ir::OpContext c = ir::context_of(g, n, ops::table());
  for (size_t i = 0; i < c.input_count(); ++i)
    if (c.has(i) && !c.shape(i).is_static()) return std::nullopt;
  if (n.op->compute) {
    const auto p = n.op->compute(c);
    // An expression that needs values no constant gives belongs to an operator that moves data (reshape, slice, expand).
    return p.ok() ? count_macs(*p) : 0;
  }
  if (n.op->expand || !n.op->expand_text.empty()) {
    const auto body = ir::expand(c);
    return body.ok() ? graph_macs(*body, depth + 1) : std::nullopt;
  }
  return 0;
}

std::optional<int64_t> graph_macs(const ir::Graph& g, int depth) {
  int64_t total = 0;
  if (depth > 8) return std::nullopt;
  for (const ir::Node& n : g.nodes()) {
    if (!ir::is_computed(n)) continue;
    const auto m = node_macs(g, n, depth);
    const auto sum = m ? checked_add(total, *m) : std::nullopt;
    if (!sum) return std::nullopt;
    total = *sum;
  }
  return total;
}

std::optional<int64_t> peak_bytes(const ir::Graph& g) {
  std::vector<uint32_t> last(g.nodes().size());
  for (uint32_t i = 0; i < g.nodes().size(); ++i) {
    last[i] = i;
    for (const ir::Value& v : g.node(i).inputs)
      if (!v.is_none()) last[v.node] = i;
  }
  for (const ir::Output& o : g.outputs()) last[o.value.node] = static_cast<uint32_t>(g.nodes().size());
  std::vector<int64_t> freed(g.nodes().size() + 1, 0);
  int64_t live = 0, peak = 0;
  for (uint32_t i = 0; i < g.nodes().size(); ++i) {
    if (g.node(i).op == &ir::const_op()) continue;
    for (const Type& t : g.node(i).types) {
      if (t.dtype == DType::Opaque || !t.shape.is_static()) return std::nullopt;
      const auto n = checked_elements(t.dtype, t.shape.values());
      const auto bytes = n.ok() ? checked_mul(*n, static_cast<int64_t>(size_of(t.dtype))) : std::nullopt;
      const auto sum = bytes ? checked_add(live, *bytes) : std::nullopt;
      if (!sum) return std::nullopt;
      live = *sum;
      freed[last[i]] += *bytes;
    }
    peak = std::max(peak, live);
    live -= freed[i];
  }
  return peak;
}

void add_graph(const ir::Graph& g, Summary& s, int depth) {
  for (const ir::Node& n : g.nodes()) {
    if (n.op == &ir::input_op()) continue;
    if (n.op == &ir::const_op()) {
      const Tensor& t = *n.attrs.get<Tensor>("value");
      ++s.constants;
      s.parameters += t.size();
      s.parameter_bytes += static_cast<int64_t>(t.byte_size());
      continue;
    }
    std::string label = n.op->name;
    if (!runnable(*n.op)) {
      const auto* domain = n.attrs.get<std::string>("op_domain");
      const auto* type = n.attrs.get<std::string>("op_type");
      if (type) label = domain && !domain->empty() ? *domain + "::" + *type : *type;
      const bool known = type && ops::table().find_onnx(domain ? *domain : "", *type).has_value();
      s.unsupported.push_back(
          {n.label.empty() && !n.names.empty() ? n.names[0] : n.label, label,
           known ? "one of its values has a type Isomer does not compute with" : "Isomer has no such operator"});
    }
    ++s.operators[label];
    for (const auto& [key, value] : n.attrs)
      if (const auto* body = std::get_if<ir::GraphRef>(&value); body && depth < 64) add_graph(**body, s, depth + 1);
  }
}

}  // namespace

std::optional<int64_t> count_macs(const te::Program& p) {
  Dim total(0);
  for (const te::Stage& s : p.stages) total = total + products_summed(s.body) * volume(s.axes);
  return total.constant();
}

Summary take_inventory(const ir::Graph& g) {
  Summary s;
  add_graph(g, s, 0);
  for (const ir::Node& n : g.inputs())
    for (const Dim& d : n.types[0].shape.dims()) d.symbols(s.dynamic_dims);
  return s;
}

Summary summarise(const ir::Graph& g) {
  Summary s = take_inventory(g);
  s.macs = graph_macs(g, 0);
  s.activation_bytes = peak_bytes(g);
  return s;
}

}  // namespace isomer::driver
