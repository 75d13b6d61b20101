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
  size_t equals = 1;  // regions that it was found for
};

class Exploration {
 public:
  Exploration(Judge& judge, rewrite::EditGraph graph, Region region);

  // Estimates its share of the time, and what its first steps may gain, before anything is priced.
  void weigh();
  double weight() const { return weight_; }
  double promise() const { return promise_ * static_cast<double>(equals); }

  // Expands one graph and prices so many of its children at most; the first turn prices the region.
  void turn(size_t most);
  bool ended() const { return ended_; }
  bool begun() const { return best_ != nullptr; }
  // Who comes next: those that gained by their last turn before those that did not, since steps that gain are what time must
  // not run out for; then the region with the most time to gain.
  bool idle() const { return idle_ > 0; }
  double urgency() const;
  double before() const { return begun() ? root_->cost : 0; }
  double best() const { return begun() ? best_->cost : 0; }

  // The cheapest graph when it is cheaper than the region is now, judged as a whole; and what was left. Once, at the end.
  Found settle();

  size_t equals = 1;  // regions that it speaks for

 private:
  void look();
  void begin(size_t most);
  std::vector<std::shared_ptr<Node>> children(const NodeRef& node);
  // Prices the children of a graph.
  void follow(const NodeRef& node, std::vector<std::shared_ptr<Node>> nodes, size_t most);
  NodeRef taken();
  // Goes on to the graph with the fewest reductions that is no slower, and of those with the fewest kernels. With as many reductions as
  // before, to the one that saves most of those that pay by themselves.
  void join(const Judge::Simpler& simpler);
  bool joins_nothing(const Node& step) const;
  // The same with those steps alone that pay beside the others: which of the others were on the way is luck.
  NodeRef needed(const NodeRef& node);
  NodeRef without(const std::vector<const Node*>& path, size_t step, bool priced) const;
  std::vector<NodeRef> finalists() const;

  Judge& judge_;
  rewrite::EditGraph graph_;
  const Region region_;
  double weight_ = 0, promise_ = 0;
  bool ended_ = false, priceless_ = false;
  std::vector<uint32_t> around_, members_;
  std::map<std::string, size_t> places_;
  NodeRef best_;
  std::shared_ptr<Node> root_;                // once it was looked at
  std::vector<std::shared_ptr<Node>> first_;  // its children, until they are priced,
  Judge::Simpler simpler_;                    // or tried
  ByPromise queue_;
  ByCost cheaper_;
  std::unordered_set<Hash128> seen_;
  Ledger ledger_;
  size_t left_ = 0, most_ = 0;
  size_t idle_ = 0;  // turns since the best became cheaper
  double mark_ = 0;  // what it cost then
};

}  // namespace isomer::search
