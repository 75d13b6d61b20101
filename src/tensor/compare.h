// Tolerant comparison of two tensors. Integers and bool are compared exactly; floats agree when the difference is
// within absolute + relative * |expected|. NaN agrees with NaN only, an infinity with itself only.
#pragma once

#include <string>

#include "tensor/tensor.h"

namespace isomer {

struct Tolerance {
  double absolute = 0;
  double relative = 0;
};

struct Comparison {
  bool comparable = true;  // same shape, and both floats or the same integer type
  int64_t elements = 0;
  int64_t mismatches = 0;
  int64_t first_mismatch = -1;  // row-major position
  std::string first;            // "[1,2]: expected 3, found 4"
  // Over the elements where both are finite.
  double max_abs_error = 0;
  double max_rel_error = 0;        // relative to the expected element; elements that should be 0 do not count
  double error_of_largest = 0;     // max_abs_error relative to the largest expected magnitude
  int64_t special_mismatches = 0;  // of the mismatches, those that a NaN or an infinity makes

  bool ok() const { return comparable && mismatches == 0; }
  std::string to_string() const;  // one line
};

Comparison compare(const Tensor& found, const Tensor& expected, const Tolerance& tolerance = {});

}  // namespace isomer
