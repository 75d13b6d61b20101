// The labels under which a model is cheapest: every factor of its label space is priced under every choice, and the sum is made
// least exactly (label_solver.h).
#pragma once

#include "compile/label_space.h"
#include "cost/kernel_times.h"

namespace isomer::cost {

struct Labelling {
  compile::Labels labels;            // empty: what the compiler chooses by itself is best
  double seconds = 0, standard = 0;  // with the labels, and without any
  size_t variables = 0, factors = 0, measured = 0;
  bool exact = true;  // false: some kernels were left to the analytic model, or the graph is too entangled
};

Labelling best_labels(KernelTimes& times, const compile::LabelSpace& space);

}  // namespace isomer::cost
