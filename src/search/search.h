// Search: a graph that costs less, found by proved rewrites under any cost. Relaxed substitutions as MetaFlow and TASO
// published them: a queue of graphs by cost, where a step may cost now and pay later, on regions of the graph that share
// matches. Equal regions are searched once.
//
// Invariants: the result costs no more than the input. The same graph, rules, costs and numbers of steps give the same
// result with any number of threads; a limit in seconds may end the search earlier, with the best so far.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "base/quiet.h"
#include "ir/graph.h"
#include "rewrite/matcher.h"
#include "search/considered.h"

namespace isomer::search {

// Seconds, or any number where less is better. A diagnostic means that the graph has no cost: it is left alone.
using Cost = std::function<Expected<double>(const ir::Graph&)>;

// Two graphs side by side.
struct Comparison {
  double seconds = 0;   // by which the second one differs
  double changed = 0;   // what only the first one has
  int64_t kernels = 0;  // by which their number differs,
  int64_t moves = 0;    // and that of those which only carry values on
};
// By a look at them: the first is what their costs are made of, each later one stands apart from those before it.
using Compare = std::function<Expected<Comparison>(const ir::Graph& before, const ir::Graph& after, int look)>;

// What rewrites must gain, since the cheapest of many prices is the one with the luckiest timing.
inline constexpr double kClearGain =
    0.05;  // of what they change: there is the noise of timings, however large the region
inline constexpr double kSafeGain = 0.03;  // of their region, where what they change is not known
// Of the model, by the estimate: less is not worth a rewrite, and would be taken or left by noise.
inline constexpr double kLeastGain = 0.003;
// What a simpler graph may lose of what it changes.
inline constexpr double kLevelLoss = 0.02;

enum class Strategy : uint8_t {
  Greedy,   // the best child of each graph, as long as it is better
  Relaxed,  // all graphs within alpha of the best, the cheapest first
};

struct Progress {
  size_t region = 0, regions = 0;
  size_t priced = 0;            // graphs
  double before = 0, best = 0;  // of the regions looked at so far
  bool foreseen = false;        // by estimates, before any kernel is timed
};

struct Options {
  Strategy strategy = Strategy::Relaxed;
  double alpha = 1.05;
  double doubt = 1.5;          // a graph whose estimate is so many times its parent's is not priced,
  double dead_end = 1.25;      // and where no other rule goes on from there, so many times
  size_t width = 12;           // children of one graph that are priced: those with the best estimates
  int64_t steps = 4000;        // graphs that are priced, in all
  int64_t region_steps = 250;  // and in one region
  size_t patience = 6;         // a region whose best graph did not become cheaper for so many turns is done
  double seconds = std::numeric_limits<double>::infinity();
  size_t region_nodes = 300;
  int rounds = 3;                           // regions are found anew where rewrites were made
  bool simplify = false;                    // fewest reductions at the same cost, by steps that each leave fewer
  int threads = 1;                          // that price at the same time
  Quiet* quiet = nullptr;                   // of these threads, where pricing needs it
  const std::atomic<bool>* stop = nullptr;  // ends the search with the best so far
  std::function<void(const Progress&)> progress = nullptr;
  Compare compare = nullptr;  // empty: by costs alone
  Compare timed = nullptr;    // by the clock, where `compare` is by estimates; empty: nothing is timed
};

// One application of a rule, by the numbers that EditGraph gives the nodes when the rewrites before it are made in order.
struct Application {
  std::string rule;
  std::vector<uint32_t> nodes;     // per call of the pattern
  std::vector<ir::Value> inputs;   // per input of the rule
  std::vector<std::string> names;  // of the results of `nodes`, "" where a rewrite made them
  std::vector<uint32_t> added;     // the nodes it made, constants apart, in the order they were made
};

// What the search did at once: a rule at one place or at several, and what tidies up behind it. Costs are of the region.
struct Step {
  std::vector<Application> applications;
  double before = 0, after = 0;
  bool repeated = false;  // found in an equal region
  size_t region = 0;      // steps of one region build on each other
  bool alone = false;     // of a simpler form: it joins nothing, and pays by itself
};
std::vector<Application> applications(const std::vector<Step>& steps);  // of all, in order

struct Statistics {
  size_t regions = 0, repeated = 0;  // searched, and not searched since an equal one was
  size_t priced = 0, expanded = 0, duplicates = 0, estimated = 0, refused = 0;
  bool complete = true;  // no limit was reached,
  bool in_time = true;   // or none but of steps, which is the same every time
  double seconds = 0;
};

struct Outcome {
  ir::Graph graph;
  std::vector<Step> steps;
  Statistics statistics;
  std::vector<Considered> considered;  // and not taken
};

// What the best first step of each region would save by the estimate, in all of them together, as far as the time allows to look.
double promised_gain(const ir::Graph& graph, const ir::OpTable& table, const std::vector<const rewrite::Rule*>& rules,
                     const Cost& estimate, const Options& options);

// `estimate` ranks graphs before they are priced and may be empty. Both must be safe to call from several threads.
Expected<Outcome> optimise(const ir::Graph& graph, const ir::OpTable& table,
                           const std::vector<const rewrite::Rule*>& rules, const Cost& price, const Cost& estimate,
                           const Options& options);

// Of steps that were found, those in regions of which nothing is kept: they were cheaper, and whole runs were not faster.
void add_timed(std::vector<Considered>& all, const std::vector<Step>& found, const std::vector<Step>& kept);

// Called with each application before it is made; a diagnostic ends the replay.
using Look = std::function<Expected<void>(const rewrite::Rule& rule, const rewrite::Match& match)>;

// Steps made again, with the numbers that they have now.
struct Replayed {
  ir::Graph graph;
  std::vector<Step> steps;
};
// The steps again, without searching; some of those that were found may be left out. A step that does not fit is E-trace.
Expected<Replayed> replay(const ir::Graph& graph, const ir::OpTable& table,
                          const std::vector<const rewrite::Rule*>& rules, const std::vector<Step>& steps,
                          const Look& look = nullptr);

}  // namespace isomer::search
