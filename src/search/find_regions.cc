#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "search/region.h"

namespace isomer::search {
namespace {

using rewrite::EditGraph;

// How far the work behind a region's reductions belongs to it: a bias, an activation, a concatenation.
constexpr int kHops = 4;

class Sets {
 public:
  explicit Sets(size_t count) : parent_(count) { std::iota(parent_.begin(), parent_.end(), 0U); }
  uint32_t find(uint32_t x) {
    while (parent_[x] != x) x = parent_[x] = parent_[parent_[x]];
    return x;
  }
  void join(uint32_t a, uint32_t b) {
    a = find(a), b = find(b);
    parent_[std::max(a, b)] = std::min(a, b);
  }

 private:
  std::vector<uint32_t> parent_;
};

struct Cluster {
  std::vector<uint32_t> nodes;  // in the order of the model
  std::vector<const rewrite::Match*> matches;
};

// The cluster in two where the fewest of its matches cross, as long as it is too large. Both halves keep a quarter.
void cut(const EditGraph& g, Cluster cluster, size_t limit, std::vector<Cluster>& out) {
  if (cluster.nodes.size() <= limit) {
    out.push_back(std::move(cluster));
    return;
  }
  std::map<uint32_t, size_t> place;
  for (size_t i = 0; i < cluster.nodes.size(); ++i) place[cluster.nodes[i]] = i;
  std::vector<int64_t> change(cluster.nodes.size() + 1);
  std::vector<std::pair<size_t, size_t>> spans;
  for (const rewrite::Match* m : cluster.matches) {
    size_t low = SIZE_MAX, high = 0;
    for (const uint32_t n : m->nodes) {
      const auto it = place.find(n);
      if (it == place.end()) continue;
      low = std::min(low, it->second), high = std::max(high, it->second);
    }
    spans.emplace_back(low, high);
    if (low < high) ++change[low + 1], --change[high + 1];
  }
  const size_t n = cluster.nodes.size(), margin = n / 4;
  size_t best = n / 2;
  int64_t crossing = 0, fewest = INT64_MAX;
  for (size_t i = 1; i < n; ++i) {
    crossing += change[i];
    if (i < margin || i > n - margin) continue;
    const auto off = [&](size_t at) { return at > n / 2 ? at - n / 2 : n / 2 - at; };
    if (crossing < fewest || (crossing == fewest && off(i) < off(best))) fewest = crossing, best = i;
  }
  Cluster left, right;
  left.nodes.assign(cluster.nodes.begin(), cluster.nodes.begin() + static_cast<ptrdiff_t>(best));
  right.nodes.assign(cluster.nodes.begin() + static_cast<ptrdiff_t>(best), cluster.nodes.end());
  for (size_t k = 0; k < spans.size(); ++k) {
    if (spans[k].second < best) left.matches.push_back(cluster.matches[k]);
    if (spans[k].first >= best && spans[k].first != SIZE_MAX) right.matches.push_back(cluster.matches[k]);
  }
  cut(g, std::move(left), limit, out);
  cut(g, std::move(right), limit, out);
}

}  // namespace

Region with_followers(const EditGraph& g, const std::vector<uint32_t>& nodes, Reductions& reductions) {
  std::set<uint32_t> all(nodes.begin(), nodes.end());
  std::vector<uint32_t> front = nodes;
  for (int hop = 0; hop < kHops && !front.empty(); ++hop) {
    std::vector<uint32_t> next;
    for (const uint32_t n : front)
      for (const rewrite::Use& u : g.uses(n))
        if (!reductions.at(g, u.user) && g.node(u.user).op->kernel == nullptr && all.insert(u.user).second)
          next.push_back(u.user);
    front = std::move(next);
  }
  return Region(std::vector<uint32_t>(all.begin(), all.end()));
}

std::vector<uint32_t> surroundings(const EditGraph& g, const Region& region, Reductions& reductions) {
  std::set<uint32_t> all;
  std::vector<uint32_t> front = region.nodes();
  for (const uint32_t n : front) {
    if (!g.alive(n)) continue;
    for (const rewrite::Use& u : g.uses(n))
      if (!region.has(u.user) && reductions.at(g, u.user)) all.insert(u.user);
  }
  for (int hop = 0; hop < kHops && !front.empty(); ++hop) {
    std::vector<uint32_t> next;
    for (const uint32_t n : front) {
      if (!g.alive(n)) continue;
      for (const ir::Value& v : g.node(n).inputs) {
        if (v.is_none() || region.has(v.node) || g.constant(v) || g.node(v.node).op == &ir::input_op()) continue;
        if (g.node(v.node).op->kernel != nullptr || !all.insert(v.node).second) continue;
        if (!reductions.at(g, v.node)) next.push_back(v.node);
      }
    }
    front = std::move(next);
  }
  return {all.begin(), all.end()};
}

namespace {

// Joins the places of a rule where one feeds the other through work that does not reduce.
void join_chains(const EditGraph& g, const std::vector<const rewrite::Match*>& wrapping, Reductions& reductions,
                 Sets& sets) {
  std::map<uint32_t, std::set<uint32_t>> places;  // by rule
  for (const rewrite::Match* m : wrapping) places[m->rule].insert(m->nodes.begin(), m->nodes.end());
  for (const rewrite::Match* m : wrapping) {
    const std::set<uint32_t>& others = places.at(m->rule);
    const std::vector<uint32_t> behind = with_followers(g, m->nodes, reductions).nodes();
    for (const uint32_t n : behind)
      for (const rewrite::Use& u : g.uses(n))
        if (others.contains(u.user)) sets.join(m->nodes[0], u.user);
  }
}

}  // namespace

std::vector<Region> find_regions(const EditGraph& g, const std::vector<const rewrite::Match*>& steps,
                                 const std::vector<const rewrite::Match*>& wrapping, size_t limit,
                                 Reductions& reductions) {
  Sets sets(g.slots());
  join_chains(g, wrapping, reductions, sets);
  std::vector<bool> taken(g.slots());
  for (const rewrite::Match* m : steps)
    for (const uint32_t n : m->nodes) {
      taken[n] = true;
      sets.join(m->nodes[0], n);
    }
  for (uint32_t id = 0; id < g.slots(); ++id) {
    if (!g.alive(id) || g.constant({id, 0})) continue;
    std::map<uint32_t, uint32_t> first;  // by result: a reduction of it
    for (const rewrite::Use& u : g.uses(id))
      if (taken[u.user] && reductions.at(g, u.user)) sets.join(first.emplace(u.index, u.user).first->second, u.user);
  }
  std::map<uint32_t, Cluster> clusters;
  for (uint32_t id = 0; id < g.slots(); ++id)
    if (taken[id]) clusters[sets.find(id)].nodes.push_back(id);
  for (const rewrite::Match* m : steps) clusters[sets.find(m->nodes[0])].matches.push_back(m);
  std::vector<Cluster> pieces;
  for (auto& [root, cluster] : clusters) {
    std::sort(cluster.nodes.begin(), cluster.nodes.end(),
              [&](uint32_t a, uint32_t b) { return std::pair(g.key(a), a) < std::pair(g.key(b), b); });
    cut(g, std::move(cluster), limit, pieces);
  }
  std::sort(pieces.begin(), pieces.end(), [&](const Cluster& a, const Cluster& b) {
    return std::pair(g.key(a.nodes[0]), a.nodes[0]) < std::pair(g.key(b.nodes[0]), b.nodes[0]);
  });
  std::vector<Region> out;
  for (const Cluster& c : pieces)
    if (!c.matches.empty()) out.push_back(with_followers(g, c.nodes, reductions));
  return out;
}

}  // namespace isomer::search
