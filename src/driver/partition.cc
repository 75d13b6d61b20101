#include "driver/partition.h"

#include <algorithm>

#include "driver/native.h"
#include "driver/piece.h"
#include "ir/context.h"
#include "ops/table.h"

namespace isomer::driver {
namespace {

constexpr int64_t kMostSizes = 64;  // elements of a tensor that may stand for sizes

bool known(const Type& t) { return t.dtype != DType::Opaque && t.shape.is_static(); }

bool all_known(const ir::Graph& g, const ir::Node& n) {
  return std::all_of(n.inputs.begin(), n.inputs.end(),
                     [&](const ir::Value& v) { return v.is_none() || known(g.type(v)); });
}

bool results_known(const ir::Node& n) { return std::all_of(n.types.begin(), n.types.end(), known); }

bool reads_later(const ir::Node& n, const Partition& p) {
  return std::any_of(n.inputs.begin(), n.inputs.end(),
                     [&](const ir::Value& v) { return !v.is_none() && p.nodes[v.node].by == By::Later; });
}

// Sizes, starts and scales are short lists.
bool may_be_sizes(const Type& t) {
  return t.dtype != DType::Opaque && t.shape.is_static() && t.shape.rank() <= 1 &&
         (t.shape.rank() == 0 || t.shape[0].value() <= kMostSizes);
}

bool is_open(const ir::Graph& g, const ir::Value& v) {
  return !v.is_none() && g.node(v.node).op != &ir::const_op() && may_be_sizes(g.type(v));
}

// Whether the contents of an input may decide about sizes. Of a procedure these are whole numbers.
bool decides(const ir::Graph& g, const ir::Node& n, size_t i) {
  return is_open(g, n.inputs[i]) && (!n.op->kernel || (is_procedure(n) && g.type(n.inputs[i]).dtype == DType::I64));
}

// Whether the contents of a small input decide about sizes or about the expression itself (an axis, a mode).
bool waits_for_contents(const ir::Graph& g, const ir::Node& n) {
  bool open = false;
  for (size_t i = 0; i < n.inputs.size(); ++i) open = open || decides(g, n, i);
  if (n.op->kernel) return open && !results_known(n);
  if (!open || !results_known(n) || !all_known(g, n)) return open && !results_known(n);
  const ir::OpContext c = ir::context_of(g, n, ops::table());
  return n.op->compute ? !n.op->compute(c).ok() : !n.op->open_attrs && !ir::expand(c).ok();
}

// The sentence of a diagnostic about a node, without the part that names the node.
std::string reason_of(const Diagnostic& d) {
  static constexpr std::string_view kMark = "cannot be compiled: ";
  const size_t at = d.message.rfind(kMark);
  return at == std::string::npos ? d.message : d.message.substr(at + kMark.size());
}

Choice choose(const ir::Graph& g, uint32_t id) {
  const ir::Node& n = g.node(id);
  if (n.op->open_attrs) return {By::Reference, "Isomer has no such operator"};
  if (!results_known(n) && !n.op->kernel) return {By::Reference, "only a run can tell the size of its result"};
  std::vector<bool> taken(g.nodes().size());
  taken[id] = true;
  const auto piece = cut(g, taken);
  if (!piece.ok()) return {By::Reference, piece.error().message};
  const auto compiles = can_compile(piece->graph, true);
  if (compiles.ok()) return {};
  return {has_bodies(n) ? By::Driven : By::Reference, reason_of(compiles.error())};
}

}  // namespace

Choice opaque_choice() { return {By::Reference, "its result depends on data in a way that no expression says"}; }

Partition partition(const ir::Graph& g) {
  Partition p;
  p.nodes.resize(g.nodes().size());
  if (can_compile(g).ok()) {
    p.whole = true;
    return p;
  }
  bool first = true;  // something must be done now, or it would be put off forever
  for (uint32_t i = 0; i < g.nodes().size(); ++i) {
    const ir::Node& n = g.node(i);
    if (!ir::is_computed(n)) continue;
    if (!all_known(g, n) || reads_later(n, p))
      p.nodes[i] = {By::Later, "its sizes follow from data"};
    else if (!first && waits_for_contents(g, n))
      p.nodes[i] = {By::Later, "its sizes are the contents of another value"};
    else
      p.nodes[i] = choose(g, i);
    first = false;
  }
  return p;
}

std::vector<size_t> size_inputs(const ir::Graph& g) {
  std::vector<bool> wanted(g.nodes().size());
  for (uint32_t i = static_cast<uint32_t>(g.nodes().size()); i-- > 0;) {
    const ir::Node& n = g.node(i);
    if (!ir::is_computed(n)) continue;
    if (!wanted[i] && !waits_for_contents(g, n)) continue;
    for (size_t k = 0; k < n.inputs.size(); ++k)
      if (wanted[i] ? is_open(g, n.inputs[k]) : decides(g, n, k)) wanted[n.inputs[k].node] = true;
  }
  std::vector<size_t> out;
  for (size_t i = 0; i < g.input_count(); ++i)
    if (wanted[i]) out.push_back(i);
  return out;
}

}  // namespace isomer::driver
