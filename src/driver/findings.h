// Findings: lists of steps that may make a model faster, by every way of looking for them, within one budget.
// Invariant: nothing here was run as a whole; what is found is worth compiling and timing, no more.
#pragma once

#include <vector>

#include "base/hash.h"
#include "cost/pricer.h"
#include "driver/budget.h"
#include "driver/candidates.h"
#include "driver/open_sizes.h"
#include "driver/optimize.h"
#include "driver/quick_look.h"
#include "search/search.h"

namespace isomer::driver {

struct Findings {
  Foreseen foreseen;
  // By timed kernels or, where nothing is timed, by estimates; different ones, those first that were found under the prices of the best
  // labels.
  struct List {
    std::vector<search::Step> steps;
    Hash128 graph;           // the content of what they lead to
    bool confirmed = false;  // a second look at its kernels showed the gain again
  };
  std::vector<List> lists;
  search::Statistics statistics;
  std::vector<search::Considered> considered;
};

// All that is given has to outlive it.
struct Finder {
  const ir::Graph& start;
  const std::vector<const rewrite::Rule*>& rules;
  const Sizes& sizes;
  const OptimizeOptions& options;
  const CandidateMaker& candidates;
  const Budget& budget;
  cost::Pricer& pricer;

  Expected<Findings> find() const;
  // How long labels may be looked for until this share of the budget is gone.
  cost::LabelOptions label_options(double share) const;

 private:
  int searchers(bool timing) const;
  QuickLook quick_look(double share) const;
  Expected<search::Outcome> with_labels(search::Options how) const;
  Expected<search::Outcome> by_kernels(search::Options how) const;
  Expected<void> look_jointly(search::Options how, Findings& out) const;
  Expected<void> add(search::Outcome outcome, bool confirmed, Findings& out) const;
  Expected<void> compare_with_foresight(Findings& out) const;
};

}  // namespace isomer::driver
