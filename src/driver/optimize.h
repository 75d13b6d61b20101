// Optimize: a model that computes the same in less time. Graph passes, a search over proved rewrites under the price of the
// kernels that the compiler would make, passes again, and then everything that makes the result worth trusting: each rewrite
// tested at the model's attributes, the whole run against the original, and timed against it.
//
// Invariant: what comes back computes what came in, within the tolerance, and is not slower as far as a timing can tell;
// else it is the input (after its passes) or, where a difference was found, there is no graph and a culprit.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "driver/inputs.h"
#include "driver/rewrite_check.h"
#include "rewrite/library.h"
#include "search/search.h"

namespace isomer::driver {

struct OptimizeOptions {
  search::Options search;
  std::string rules;                              // a file or folder; "": the library
  rewrite::Trust trust = rewrite::Trust::Proved;  // AsWritten: for tests of the checks, which must not rely on proofs
  bool test_rewrites = true;                      // over the field; off: only for tests of the bisection
  int threads = 0;                                // of a run
  bool measure = true;                            // kernels are timed; off: the analytic model alone
  std::string store;                              // of kernel times; "": the standard place
  std::map<std::string, int64_t> assumed;         // sizes that stay open in the model, for pricing and checking
  bool layout =
      false;           // rewrites are priced with their best layouts and algorithms, and the result gets them as labels
  bool fresh = false;  // search, check and time also where the store remembers what came of it
  InputOptions inputs;                                // of the check: the files, on top of random ones with this seed
  double tolerance = 1e-4;                            // of an output's largest magnitude
  double timing_seconds = 2;                          // of a race of the result with the input, at most
  double file_seconds = 0;                            // of the budget, for reading the model and writing the result
  const std::vector<search::Step>* replay = nullptr;  // these steps in place of a search,
  std::string replay_labels;                          // and these labels for what they lead to
};

// What a model is before and after.
struct Figures {
  int64_t operators = 0, parameters = 0;
  size_t kernels = 0;
  double estimated = 0, priced = 0, measured = 0;  // seconds of a run; 0: not known, for which no time was left
  uint64_t weight_bytes = 0, arena_bytes = 0;
};

struct RuleUse {
  std::string proof;    // kind
  std::string numeric;  // exact, reassociating
};

struct Optimized {
  ir::Graph graph;
  ir::Graph start;  // what the search started from: the model after its passes
  bool changed = false;
  std::string why_not;                         // when nothing was changed
  std::vector<search::Step> steps;             // that made the graph
  std::vector<search::Considered> considered;  // and not taken, by the search or by the timing at the end
  std::string labels;                          // that the graph has, as text; "" for none
  size_t labelled = 0;                         // values with a label
  size_t untried = 0;                          // groups for whose other layouts and algorithms no time was left
  size_t kernels_measured = 0;
  bool remembered = false;  // by the store: nothing was searched
  int64_t checked = 0;      // when the same result was checked and timed, in seconds since 1970; 0: now
  search::Statistics statistics;
  std::map<std::string, RuleUse> rules;  // those in `steps`
  Figures before, after;
  std::map<std::string, int64_t> assumed;  // open sizes and what they were taken to be
  size_t tested = 0, untested = 0;         // applications over the field
  size_t input_sets = 0;                   // on which the result was run
  std::vector<OutputError> errors;
  std::vector<OutputError> own_errors;  // of the original in floats, where the result's are above the tolerance
  std::optional<Culprit> culprit;       // the result is wrong and must not be used
  std::vector<std::string> warnings;
};

Expected<Optimized> optimize(const ir::Graph& graph, const OptimizeOptions& options);

}  // namespace isomer::driver
