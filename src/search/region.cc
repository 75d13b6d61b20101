#include "search/region.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <queue>
#include <set>
#include <unordered_set>

namespace isomer::search {

using rewrite::EditGraph;

bool Region::has(const rewrite::Match& match) const {
  return std::all_of(match.nodes.begin(), match.nodes.end(), [&](uint32_t n) { return has(n); });
}

void Region::update(const rewrite::Edit& edit) {
  for (const uint32_t n : edit.removed) set(n, false);
  for (const uint32_t n : edit.added) set(n, true);
}

std::vector<uint32_t> Region::nodes() const {
  std::vector<uint32_t> out;
  for (uint32_t n = 0; n < in_.size(); ++n)
    if (in_[n]) out.push_back(n);
  return out;
}

std::vector<uint32_t> in_order(const EditGraph& g, const Region& region) {
  std::vector<uint32_t> all;
  std::unordered_set<uint32_t> seen;
  std::vector<uint32_t> open = region.nodes();
  while (!open.empty()) {
    const uint32_t id = open.back();
    open.pop_back();
    if (!g.alive(id) || g.node(id).op == &ir::input_op() || !seen.insert(id).second) continue;
    all.push_back(id);
    for (const ir::Value& v : g.node(id).inputs)
      if (!v.is_none() && g.constant(v)) open.push_back(v.node);
  }
  using Entry = std::pair<uint64_t, uint32_t>;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> ready;
  std::map<uint32_t, uint32_t> missing;
  std::map<uint32_t, std::vector<uint32_t>> users;
  for (const uint32_t id : all) {
    std::set<uint32_t> producers;
    for (const ir::Value& v : g.node(id).inputs)
      if (!v.is_none() && seen.contains(v.node)) producers.insert(v.node);
    missing[id] = static_cast<uint32_t>(producers.size());
    for (const uint32_t p : producers) users[p].push_back(id);
    if (producers.empty()) ready.push({g.key(id), id});
  }
  std::vector<uint32_t> out;
  while (!ready.empty()) {
    const uint32_t id = ready.top().second;
    ready.pop();
    out.push_back(id);
    for (const uint32_t u : users[id])
      if (--missing[u] == 0) ready.push({g.key(u), u});
  }
  return out;
}

namespace {

bool needed_outside(const EditGraph& g, const Region& region, ir::Value v) {
  if (g.is_output(v)) return true;
  const auto uses = g.uses(v.node);
  return std::any_of(uses.begin(), uses.end(), [&](const rewrite::Use& u) {
    return u.index == v.index && !region.has(u.user) && !g.constant({u.user, 0});
  });
}

}  // namespace

Expected<ir::Graph> graph_of(const EditGraph& g, const Region& region) {
  const std::vector<uint32_t> order = in_order(g, region);
  const std::unordered_set<uint32_t> inside(order.begin(), order.end());
  ir::GraphBuilder builder(g.table(), "region");
  builder.set_verbatim(true);
  std::map<ir::Value, ir::Value> now;
  for (const uint32_t id : order)
    for (const ir::Value& v : g.node(id).inputs) {
      if (v.is_none() || inside.contains(v.node) || now.contains(v)) continue;
      ISOMER_TRY(now[v], builder.input(fmt::format("v{}.{}", v.node, v.index), g.type(v)));
    }
  for (const uint32_t id : order) {
    const ir::Node& n = g.node(id);
    if (n.op == &ir::const_op()) {
      now[{id, 0}] = builder.constant(*n.attrs.get<Tensor>("value"), n.names[0]);
      continue;
    }
    std::vector<ir::Value> in;
    for (const ir::Value& v : n.inputs) in.push_back(v.is_none() ? v : now.at(v));
    ISOMER_TRY(const std::vector<ir::Value> made,
               builder.add(*n.op, std::move(in), n.attrs, {n.names, n.label, n.origin}, n.types.size()));
    for (uint32_t k = 0; k < made.size(); ++k) now[{id, k}] = made[k];
  }
  for (const uint32_t id : order)
    for (uint32_t k = 0; k < g.node(id).types.size(); ++k)
      if (!g.constant({id, 0}) && needed_outside(g, region, {id, k}))
        builder.output(fmt::format("y{}.{}", id, k), now.at({id, k}));
  return std::move(builder).finish();
}

namespace {

constexpr int64_t kSmall = 64;  // elements of a constant that count by their contents

class Contents {
 public:
  Contents(const EditGraph& g, const Region& region) : g_(g), region_(region) {}

  Hash128 of(ir::Value v) {
    if (v.is_none()) return {};
    if (g_.constant(v)) return of_constant(v);
    if (!region_.has(v.node)) return Hasher().add(1).add(v.node).add(v.index).digest();
    return Hasher().add(2).add(of_node(v.node)).add(v.index).digest();
  }

 private:
  Hash128 of_node(uint32_t id) {
    if (const auto it = nodes_.find(id); it != nodes_.end()) return it->second;
    const ir::Node& n = g_.node(id);
    Hasher h;
    h.add(n.op->name).add(g_.attrs(id).hash()).add(n.types.size());
    for (const ir::Value& v : n.inputs) h.add(of(v));
    return nodes_[id] = h.digest();
  }

  Hash128 of_constant(ir::Value v) {
    const Tensor* t = g_.contents(v);
    if (t && t->size() <= kSmall) return t->content_hash();
    Hasher h;
    h.add(3).add(g_.type(v).to_string());
    for (const uint32_t id : roots(v.node)) h.add(id);
    return h.digest();
  }

  const std::set<uint32_t>& roots(uint32_t id) {
    if (const auto it = roots_.find(id); it != roots_.end()) return it->second;
    std::set<uint32_t> all;
    if (g_.node(id).op == &ir::const_op()) all.insert(id);
    for (const ir::Value& v : g_.node(id).inputs)
      if (!v.is_none()) {
        const std::set<uint32_t>& more = roots(v.node);
        all.insert(more.begin(), more.end());
      }
    return roots_[id] = std::move(all);
  }

  const EditGraph& g_;
  const Region& region_;
  std::map<uint32_t, Hash128> nodes_;
  std::map<uint32_t, std::set<uint32_t>> roots_;
};

}  // namespace

Hash128 content_hash(const EditGraph& g, const Region& region) {
  Contents contents(g, region);
  std::map<std::pair<uint32_t, uint32_t>, ir::Value> outside;  // by user and operand
  std::map<size_t, ir::Value> outputs;
  for (const uint32_t id : region.nodes()) {
    if (!g.alive(id)) continue;
    for (const rewrite::Use& u : g.uses(id))
      if (!region.has(u.user)) outside[{u.user, u.operand}] = {id, u.index};
  }
  for (size_t k = 0; k < g.outputs().size(); ++k)
    if (region.has(g.outputs()[k].value.node)) outputs[k] = g.outputs()[k].value;
  Hasher h;
  for (const auto& [use, v] : outside) h.add(use.first).add(use.second).add(contents.of(v));
  for (const auto& [k, v] : outputs) h.add(k).add(contents.of(v));
  return h.digest();
}

std::string shape_of(const EditGraph& g, const Region& region) {
  std::map<uint32_t, size_t> number;
  std::string out;
  const auto name = [&](ir::Value v) -> std::string {
    if (v.is_none()) return "_";
    const auto [it, fresh] = number.emplace(v.node, number.size());
    std::string s = fmt::format("{}.{}", it->second, v.index);
    if (fresh) s += ":" + g.type(v).to_string();
    return s;
  };
  for (const uint32_t id : in_order(g, region)) {
    const ir::Node& n = g.node(id);
    const Tensor* t = n.op == &ir::const_op() ? n.attrs.get<Tensor>("value") : nullptr;
    out += t ? (t->size() <= kSmall ? t->content_hash().hex() : "const") : n.op->name + g.attrs(id).hash().hex();
    out += "(";
    for (const ir::Value& v : n.inputs) out += name(v) + ",";
    out += ")=";
    for (uint32_t k = 0; k < n.types.size(); ++k) {
      out += name({id, k}) + (region.has(id) && needed_outside(g, region, {id, k}) ? "!" : "");
      out += std::to_string(g.uses(id).size()) + (k + 1 < n.types.size() ? "," : ";");
    }
  }
  return out;
}

}  // namespace isomer::search
