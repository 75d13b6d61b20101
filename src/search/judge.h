// Judge: what the graphs of a search cost, by their differences from each other, within the limits of the search. All
// regions share one: it has the rules and both costs, ends when a limit is reached, and counts what was done. Any number of
// threads may ask.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/task_pool.h"
#include "search/considered.h"
#include "search/node.h"
#include "search/search.h"
#include "search/state.h"

namespace isomer::search {

class Judge {
 public:
  Judge(const Rules& rules, const Cost& price, const Cost& estimate, const Options& options);

  const Rules& rules() const { return rules_; }
  const Options& options() const { return options_; }
  Reductions& reductions() { return reductions_; }

  // Whether the time that may go into looking for graphs is over,
  bool late() const { return seconds() >= looking() || stopped(); }
  // or the graphs that may be priced are used up.
  bool over();
  // Graphs that may still be priced.
  size_t left() const;
  // Whether nothing may be priced any more: a part of the time is kept for judging what was found.
  bool closed() const;

  // Of the region, that a run computes.
  size_t reductions_of(const Node& node);

  // New graphs one step away, the most promising first, as many as are to be priced.
  std::vector<std::shared_ptr<Node>> children(const NodeRef& parent, std::unordered_set<Hash128>& seen, size_t most,
                                              Ledger& ledger);
  // Those of them that leave fewer reductions, by their number, and those that leave as many and may pay by themselves, in so many equal
  // regions.
  using Simpler = std::map<size_t, std::vector<std::shared_ptr<Node>>>;
  Simpler simpler(const NodeRef& parent, std::unordered_set<Hash128>& seen, size_t most, size_t equals);
  // Whether what a step made takes so much less time than what it took away, each by itself, that it need not join anything: half of it
  // by the estimate, with no more kernels, or as timed kernels say.
  bool pays_alone(const Node& node, bool as_few_kernels) const;
  // Whether a graph takes about the time of its parent, by the estimate, where there is one.
  bool keeps_time(const std::shared_ptr<Node>& node);
  // Prices the first `most` as far as time allows; the others go.
  void price(std::vector<std::shared_ptr<Node>>& nodes, size_t most, Ledger& ledger);

  // The region of a graph together with what is around it.
  std::optional<double> whole_cost(const Node& node, const std::vector<uint32_t>& around);
  std::optional<double> whole_estimate(const rewrite::EditGraph& graph, const Region& region);
  std::optional<double> whole_estimate(const ir::Graph& model);
  // Whether the second one is better by more than timings are unsure of; `again`: by looks apart from their costs, where there are such.
  bool clearly_better(const Node& one, const Node& other, const std::vector<uint32_t>& around, bool again) const;
  // Whether the second one, which has a step more, is better by so much that the step is not noise, by a second look too.
  bool pays(const Node& without, const Node& with, const std::vector<uint32_t>& around);

  // How many kernels more the second one has, where one that only moves values counts for three; nothing where there are more, or
  // where it is slower.
  std::optional<int64_t> level(const Node& one, const Node& other, const std::vector<uint32_t>& around) const;

  // What rewrites must gain at the least, in all places together; set once, before regions are explored.
  double least_gain = 0;

  // What was done, so much of a kind.
  void count(size_t Statistics::* what, size_t times = 1);
  void incomplete();
  Statistics statistics() const;
  TaskPool& pool() { return pool_; }
  double seconds() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }

 private:
  using Clock = std::chrono::steady_clock;
  struct Difference {
    std::optional<double> before, after;
    bool known() const { return before && after; }
    double value() const { return *after - *before; }
  };
  bool stopped() const { return options_.stop && options_.stop->load(); }
  double looking() const;  // seconds
  Change change(const State& parent, const State& child);
  // What a region costs, by its text: it is asked for once.
  struct Answers {
    const Cost& cost;
    std::mutex mutex;  // of what follows
    std::unordered_map<std::string, std::optional<double>> known;
  };
  // What a step took away beside what it made, each by itself.
  std::optional<Comparison> compare_alone(const Compare& compare, const Node& node, int look) const;
  // Whether that saves half of the time by the estimate, or a fifth that is something beside the model and may be timed.
  bool promises_alone(Node& node, size_t equals);
  std::optional<double> cost_of(Answers& answers, const rewrite::EditGraph& graph, const Region& region);
  // One step away; none that was seen.
  std::vector<std::shared_ptr<Node>> unseen(const NodeRef& parent, std::unordered_set<Hash128>& seen, size_t most);
  std::vector<Difference> differences(Answers& answers, const std::vector<std::shared_ptr<Node>>& children,
                                      bool limited);

  const Rules& rules_;
  Answers prices_, estimates_;
  const Options& options_;
  Reductions reductions_;
  TaskPool pool_;
  const Clock::time_point start_ = Clock::now();
  mutable std::mutex mutex_;  // of what follows
  Statistics statistics_;
  mutable std::optional<Clock::time_point> stop_;  // when it was seen first
};

}  // namespace isomer::search
