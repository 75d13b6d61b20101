// A quick look at what rules may do for a model, by the analytic model: a kernel is timed only where a step that joins nothing is to be
// taken for a fifth of its time.
#pragma once

#include <vector>

#include "cost/pricer.h"
#include "driver/open_sizes.h"
#include "search/search.h"

namespace isomer::driver {

struct QuickLook {
  const ir::Graph& start;
  const std::vector<const rewrite::Rule*>& rules;
  const Sizes& sizes;
  search::Options options;  // its limits, and when to stop
};

// What is found by the peaks of the CPU's class, which are the same every time, in seconds. Whole runs judge it later.
struct Foreseen {
  // Everything joined that may be: products of one operand, convolutions of one image. Prices of pieces do not know what a plan
  // reads again.
  std::vector<search::Step> simplest;
  // What gains by its estimates; nothing where the time is too short to look at all of it, which would end elsewhere every time.
  std::vector<search::Step> cheapest;
  // The share of the model's time that one of them saves by its estimates, also where the time was too short.
  double gain = 0;
};
// `cheapest` has so many of the look's seconds at most; none where the search to come is the same by itself. `timing` times kernels.
Expected<Foreseen> foresee(const QuickLook& look, cost::Pricer& timing, double cheapest);

// Whether rewrites would save more than this share of the model's time: what was foreseen, or first steps alone.
bool promises(double share, const Foreseen& foreseen, const QuickLook& look, cost::Pricer& pricer);

}  // namespace isomer::driver
