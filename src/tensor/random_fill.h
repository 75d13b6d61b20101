// Random tensors from a seed: the same bytes on every machine.
#pragma once

#include "base/random.h"
#include "tensor/tensor.h"

namespace isomer {

struct FillRange {
  double low = -1, high = 1;           // floats: uniform in [low, high)
  int64_t int_low = 0, int_high = 10;  // integers: both included, cut to the type's range
};

// The caller has checked the size (checked_elements). Bool: true or false with equal chance.
Tensor random_tensor(DType dtype, std::vector<int64_t> dims, Random& random, const FillRange& range = {});

}  // namespace isomer
