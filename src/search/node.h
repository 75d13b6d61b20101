// Node: a graph in the queue of a search, with its price and how it came about. Nodes are shared and never change once
// they are priced.
#pragma once

#include <algorithm>
#include <memory>
#include <set>
#include <tuple>

#include "base/hash.h"
#include "search/considered.h"
#include "search/region.h"
#include "search/state.h"

namespace isomer::search {

// What has to be priced to know how much a child differs from its parent: the nodes round the edit, before and after.
struct Change {
  Region before, after;
};

// A state with its price and how it came about.
struct Node {
  State state;
  std::shared_ptr<const Node> parent;
  double cost = 0;
  Hash128 hash;
  Change change = {};
  double estimated = 0;  // how the estimate differs from its parent's
  double touched = 0;    // what the nodes round the edit cost before it
  // The share that what the last step made saves of what it took away, by the estimate, each by itself. Where it was asked for.
  double saves_alone = 0;
};
using NodeRef = std::shared_ptr<const Node>;

struct Cheaper {
  bool operator()(const NodeRef& a, const NodeRef& b) const {
    return std::tie(a->cost, a->hash) < std::tie(b->cost, b->hash);
  }
};
using ByCost = std::set<NodeRef, Cheaper>;

// Who is followed first: of graphs that are nearly level the one whose last step touched most, since what a step may pay later
// is a part of that. Noise alone would else decide about their order.
struct MorePromising {
  static constexpr double kPromise = 0.1;  // of what was touched
  static double key(const Node& n) { return n.cost - kPromise * n.touched; }
  bool operator()(const NodeRef& a, const NodeRef& b) const {
    return std::pair(key(*a), a->hash) < std::pair(key(*b), b->hash);
  }
};
using ByPromise = std::set<NodeRef, MorePromising>;

inline Trail trail_of(const Node& node) {
  Trail out;
  for (const Node* n = &node; n->parent; n = n->parent.get())
    out.push_back({n->state.made()[0].rule, n->state.made()[0].names});
  std::reverse(out.begin(), out.end());
  return out;
}

}  // namespace isomer::search
