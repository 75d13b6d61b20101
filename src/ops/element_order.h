// The order of a tensor's elements as numbers: unsigned types by their unsigned value, NaN above every other number, so
// that sorting is a strict weak order whatever the data is.
#pragma once

#include <cmath>
#include <cstdint>

#include "tensor/tensor.h"

namespace isomer::ops {

inline bool element_less(const Tensor& t, int64_t a, int64_t b) {
  if (is_float(t.dtype())) {
    const double x = t.real(a), y = t.real(b);
    return std::isnan(y) ? !std::isnan(x) : x < y;
  }
  const int64_t x = t.integer(a), y = t.integer(b);
  return t.dtype() == DType::U64 ? static_cast<uint64_t>(x) < static_cast<uint64_t>(y) : x < y;
}

}  // namespace isomer::ops
