// Hash-consing: a node is looked up among those that are there by operator, attributes and inputs. Constants of equal
// content are one, and the order of two operands does not count where the operator's record says so.
#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "passes/lasting_type.h"
#include "passes/pass.h"
#include "passes/rebuild.h"

namespace isomer::passes {
namespace {

bool commutes(const ir::OpDef& op) {
  const std::string law = fmt::format("{0}(?a, ?b) == {0}(?b, ?a)", op.name);
  return std::find(op.laws.begin(), op.laws.end(), law) != op.laws.end();
}

struct Key {
  const ir::OpDef* op;
  std::vector<ir::Value> inputs;
  const ir::Attrs* attrs;
  size_t results;

  Hash128 hash() const {
    Hasher h;
    h.add(op->name).add(attrs->hash()).add(results);
    for (const ir::Value& v : inputs) h.add((uint64_t{v.node} << 32) | v.index);
    return h.digest();
  }
  bool operator==(const Key& o) const {
    return op == o.op && inputs == o.inputs && results == o.results && *attrs == *o.attrs;
  }
};

}  // namespace

Expected<ir::Graph> share_subexpressions(const ir::Graph& graph, PassContext& context) {
  // Nodes of the old graph that stand for all that equal them.
  std::unordered_multimap<Hash128, std::pair<uint32_t, Key>> seen;
  std::vector<std::vector<std::string>> origins(graph.nodes().size());
  std::vector<uint32_t> stands_for(graph.nodes().size());
  const auto representative = [&](ir::Value v) { return v.is_none() ? v : ir::Value{stands_for[v.node], v.index}; };
  bool changed = false;
  for (uint32_t id = 0; id < graph.nodes().size(); ++id) {
    stands_for[id] = id;
    const ir::Node& n = graph.node(id);
    origins[id] = n.origin;
    if (id < graph.input_count() || !n.op->pure || !context.admits()) continue;
    Key key{n.op, {}, &n.attrs, n.types.size()};
    for (const ir::Value& v : n.inputs) key.inputs.push_back(representative(v));
    if (key.inputs.size() == 2 && key.inputs[1] < key.inputs[0] && commutes(*n.op))
      std::swap(key.inputs[0], key.inputs[1]);
    const Hash128 hash = key.hash();
    const auto [from, to] = seen.equal_range(hash);
    const auto same = std::find_if(from, to, [&](const auto& e) { return e.second.second == key; });
    if (same == to) {
      seen.emplace(hash, std::pair(id, std::move(key)));
      continue;
    }
    const uint32_t first = same->second.first;
    stands_for[id] = first;
    for (const std::string& s : n.origin)
      if (std::find(origins[first].begin(), origins[first].end(), s) == origins[first].end())
        origins[first].push_back(s);
    changed = true;
    context.applied(n.names[0]);
  }
  if (!changed) return graph;
  return rebuild(graph, context.table(), [&](Rebuild& r, uint32_t id) -> Expected<void> {
    const uint32_t first = stands_for[id];
    if (first != id) {
      std::vector<ir::Value> values;
      for (uint32_t k = 0; k < graph.node(id).types.size(); ++k) values.push_back(r.now({first, k}));
      r.set(id, std::move(values));
      return {};
    }
    const ir::Node& n = graph.node(id);
    if (n.op == &ir::const_op() || origins[id] == n.origin) return r.copy(id);
    ISOMER_TRY(std::vector<ir::Value> made,
               r.builder().add(*n.op, r.inputs(id), n.attrs, {n.names, n.label, origins[id]}, n.types.size()));
    for (uint32_t k = 0; k < made.size(); ++k) ISOMER_CHECK_OK(r.builder().declare_type(made[k], lasting(n.types[k])));
    r.set(id, std::move(made));
    return {};
  });
}

}  // namespace isomer::passes
