// The labels under which a model is cheapest: every factor of its label space is priced under every choice, and the sum is made
// least exactly (label_solver.h).
#pragma once

#include "compile/label_space.h"
#include "cost/kernel_times.h"

namespace isomer::cost {

// What a group gains by something else than what the compiler chooses.
struct LabelChoice {
  std::string value;  // the last of the group
  compile::Algorithm algorithm = compile::Algorithm::Standard;
  double standard = 0, seconds = 0;  // as the compiler would, and as chosen
};

struct Labelling {
  std::vector<LabelChoice> choices;  // of groups whose kernels are others
  compile::Labels labels;            // empty: what the compiler chooses by itself is best
  double seconds = 0, standard = 0;  // with the labels, and without any
  size_t variables = 0, factors = 0, measured = 0;
  bool exact = true;  // false: some kernels were left to the analytic model, or the graph is too entangled
};

Labelling best_labels(KernelTimes& times, const compile::LabelSpace& space);

}  // namespace isomer::cost
