#include "passes/dead_code.h"

#include "passes/pass.h"
#include "passes/rebuild.h"

namespace isomer::passes {
namespace {

struct Needs {
  std::vector<bool> node;
  std::vector<size_t> results;  // how many of a node's results are wanted, the last wanted one included
};

Needs needs_of(const ir::Graph& g) {
  Needs n{std::vector<bool>(g.nodes().size(), false), std::vector<size_t>(g.nodes().size(), 0)};
  const auto need = [&](ir::Value v) {
    if (v.is_none()) return;
    n.node[v.node] = true;
    n.results[v.node] = std::max<size_t>(n.results[v.node], v.index + 1);
  };
  for (const ir::Output& o : g.outputs()) need(o.value);
  for (uint32_t id = static_cast<uint32_t>(g.nodes().size()); id-- > 0;)
    if (n.node[id])
      for (const ir::Value& v : g.node(id).inputs) need(v);
  return n;
}

// Results that may be left out at the end are, when nobody reads them.
size_t kept_results(const ir::Node& n, size_t needed) {
  size_t kept = n.types.size();
  while (kept > std::max<size_t>(needed, 1) && kept <= n.op->outputs.size() &&
         n.op->outputs[kept - 1].arity == ir::Arity::Optional)
    --kept;
  return kept;
}

}  // namespace

Expected<ir::Graph> without_dead_code(const ir::Graph& g, const ir::OpTable& table) {
  const Needs needs = needs_of(g);
  bool all = true;
  for (uint32_t id = 0; id < g.nodes().size(); ++id)
    all &= id < g.input_count() ||
           (needs.node[id] && kept_results(g.node(id), needs.results[id]) == g.node(id).types.size());
  if (all) return g;
  return rebuild(g, table, [&](Rebuild& r, uint32_t id) -> Expected<void> {
    if (!needs.node[id]) return {};
    return r.copy(id, kept_results(g.node(id), needs.results[id]));
  });
}

Expected<ir::Graph> dead_code(const ir::Graph& g, PassContext& context) {
  if (!context.admits()) return g;
  ISOMER_TRY(ir::Graph out, without_dead_code(g, context.table()));
  if (out.nodes().size() != g.nodes().size()) context.applied("");
  return out;
}

}  // namespace isomer::passes
