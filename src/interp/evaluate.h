// Evaluates a program on tensors of machine numbers, fast enough to run whole networks.
#pragma once

#include <vector>

#include "base/expected.h"
#include "interp/interp.h"
#include "te/program.h"
#include "tensor/tensor.h"

namespace isomer::interp {

// Inputs by slot; null for one that is absent. Every extent is a number.
Expected<std::vector<Tensor>> evaluate(const te::Program& program, const std::vector<const Tensor*>& inputs,
                                       const Options& options);

}  // namespace isomer::interp
