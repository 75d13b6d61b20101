// The labels under which a model is cheapest: every factor of its label space is priced under every choice, and the sum is made
// least exactly (label_solver.h).
#pragma once

#include <atomic>
#include <limits>
#include <string>

#include "compile/label_space.h"
#include "cost/kernel_times.h"
#include "cost/known_methods.h"

namespace isomer::cost {

// What a group gains by something else than what the compiler chooses.
struct LabelChoice {
  std::string value;  // the last of the group
  compile::Method method;
  double standard = 0, seconds = 0;  // as the compiler would, and as chosen
};

struct Labelling {
  std::vector<LabelChoice> choices;  // of groups whose kernels are others
  compile::Labels labels;            // empty: what the compiler chooses by itself is best
  double seconds = 0, standard = 0;  // with the labels, and without any
  size_t variables = 0, factors = 0, measured = 0;
  size_t untried = 0;  // groups for whose other ways no time was left
  bool exact = true;   // false: some kernels were left to the analytic model, or the graph is too entangled
};

struct LabelOptions {
  double seconds = std::numeric_limits<double>::infinity();  // for all but the compiler's own ways
  const std::atomic<bool>* stop = nullptr;                   // ends it with the best so far
  bool cuts = true;    // also other cuts of the schemes that are best, where kernels are timed
  bool rough = false;  // kernels are only tried, in one go, but for those whose times decide
};

Labelling best_labels(KernelTimes& times, const compile::LabelSpace& space, KnownMethods& methods,
                      const LabelOptions& options = {});

}  // namespace isomer::cost
