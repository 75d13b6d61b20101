// Exploration: the search of one region, in turns, so that many regions share the time: what a turn finds does not depend
// on the turns of others. A region that equals others speaks for them.
// Invariant: as long as no limit is reached, what is found depends on the region, the rules and the costs alone.
#pragma once

#include <map>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "search/judge.h"

namespace isomer::search {

// What was found for a region, in a form that an equal region can take over.
struct Found {
  std::vector<Step> steps;        // `region` is the taker's
  std::vector<uint32_t> members;  // the region's nodes in order
  std::vector<std::pair<std::string, LeftCase>> left;
  std::map<std::string, size_t> places;
};

class Exploration {
 public:
  // `weight`: what is known of its share of the time before it is priced.
  Exploration(Judge& judge, rewrite::EditGraph graph, Region region, double weight);

  // Expands one graph; the first turn prices the region.
  void turn();
  bool ended() const { return ended_; }
  bool begun() const { return root_ != nullptr; }
  // Who comes next: the region with the most time to gain, those that gain by their turns before those that do not.
  double urgency() const;
  double before() const { return root_ ? root_->cost : 0; }
  double best() const { return best_ ? best_->cost : 0; }

  // The cheapest graph when it is cheaper than the region is now, judged as a whole; and what was left. Once, at the end.
  Found settle();

  size_t equals = 1;  // regions that it speaks for

 private:
  void begin();
  std::vector<std::shared_ptr<Node>> children(const NodeRef& node);
  void follow(const NodeRef& node, std::vector<std::shared_ptr<Node>> nodes);  // prices the children of a graph
  NodeRef taken(Found& found);
  std::vector<NodeRef> finalists() const;

  Judge& judge_;
  rewrite::EditGraph graph_;
  const Region region_;
  const double weight_;
  bool ended_ = false, priceless_ = false;
  std::vector<uint32_t> around_, members_;
  std::map<std::string, size_t> places_;
  NodeRef root_, best_;
  ByCost queue_, cheaper_;
  std::unordered_set<Hash128> seen_;
  Ledger ledger_;
  size_t left_ = 0, most_ = 0;
  size_t idle_ = 0;  // turns since the best became cheaper
  double mark_ = 0;  // what it cost then
};

}  // namespace isomer::search
