// Region: the part of a graph that a search works on and prices. Rewrites are made in the whole graph, so that cycles and
// uses outside are seen; what lies outside stays as it is and need not be priced.
#pragma once

#include <string>
#include <vector>

#include "base/hash.h"
#include "rewrite/apply.h"
#include "rewrite/edit_graph.h"
#include "rewrite/matcher.h"
#include "search/role.h"

namespace isomer::search {

class Region {
 public:
  Region() = default;
  explicit Region(const std::vector<uint32_t>& nodes) { add(nodes); }
  bool has(uint32_t node) const { return node < in_.size() && in_[node]; }
  bool has(const rewrite::Match& match) const;
  void add(const std::vector<uint32_t>& nodes) {
    for (const uint32_t n : nodes) set(n, true);
  }
  void remove(uint32_t node) { set(node, false); }
  void update(const rewrite::Edit& edit);
  std::vector<uint32_t> nodes() const;  // ascending

 private:
  void set(uint32_t node, bool in) {
    if (node >= in_.size()) in_.resize(node + 1);
    in_[node] = in;
  }
  std::vector<bool> in_;
};

// The region's living nodes and the constants behind them: producers first, else in the order they had in the model.
std::vector<uint32_t> in_order(const rewrite::EditGraph& graph, const Region& region);

// The region as a graph of its own, with the constant expressions that it reads.
Expected<ir::Graph> graph_of(const rewrite::EditGraph& graph, const Region& region);

// Content of the region as seen from outside: what each use out there gets. Constants count by their type and by
// which constants of the model they are made of, in whatever order: that decides what can be computed, and how fast.
Hash128 content_hash(const rewrite::EditGraph& graph, const Region& region);

// The region's text without names and weights: two regions of one text have the same rewrites and prices, node for node
// in the order of in_order.
std::string shape_of(const rewrite::EditGraph& graph, const Region& region);

// Where there is something to search: nodes that matches of steps connect, or that reduce one and the same value, with the
// element-wise work behind them; of rules that wrap (role.h) also matches that feed each other through such work. What
// connects more than `limit` nodes is cut along the order of the model where the fewest matches cross.
std::vector<Region> find_regions(const rewrite::EditGraph& graph, const std::vector<const rewrite::Match*>& steps,
                                 const std::vector<const rewrite::Match*>& wrapping, size_t limit,
                                 Reductions& reductions);

// The nodes and the work behind them that is no reduction: what the compiler may put into their kernels.
Region with_followers(const rewrite::EditGraph& graph, const std::vector<uint32_t>& nodes, Reductions& reductions);
// What is priced along with a region so that its ends are as they are in the whole: the reductions that feed it and that
// read it, since those decide how values lie in memory, and whether a part of one has to be copied.
std::vector<uint32_t> surroundings(const rewrite::EditGraph& graph, const Region& region, Reductions& reductions);

}  // namespace isomer::search
