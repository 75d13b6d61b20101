// Quanta: a quantised model beside its meaning, one rounding at a time. Where numbers are rounded to 8 or 16 bits the smallest error moves one that
// lies between two of them by a whole quantum, and all that follows moves along: at the end nobody can tell that from a
// wrong result. So the model is cut behind every such rounding. Compiled code gives all rounded values; the reference computes each
// of them, and the outputs, from the rounded values that compiled code found before it.
// A rounded number agrees when it is the rounding of a number within the tolerance of the reference's: |q - r| <= 1/2 + tolerance * max |r|,
// r being what the reference rounds, in quanta. No error larger than the tolerance of a float network is excused by it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "driver/executor.h"

namespace isomer::driver {

struct RoundedValue {
  std::string name;
  int64_t elements = 0;
  int64_t moved = 0;  // rounded otherwise than by the reference
  int64_t wrong = 0;  // of those, not the rounding of a number within the tolerance
  double most = 0;    // the largest |q - r|, in quanta
};

struct Quanta {
  std::vector<RoundedValue> values;
  // The other results, by output of the model: what the reference makes of the rounded values that were found. Nothing
  // for an output that is a rounded value itself.
  std::vector<std::optional<Tensor>> found, expected;

  int64_t moved() const;
  int64_t wrong() const;
  int64_t elements() const;
};

// `number`: what the reference rounds, by element.
RoundedValue judged(const std::string& name, const Tensor& found, const Tensor& number, double tolerance);

// Nothing when no number is rounded so in the graph itself (bodies of control flow are not looked into).
Expected<std::optional<Quanta>> quanta(const ir::Graph& graph, const std::vector<Tensor>& inputs,
                                       const ExecutorOptions& compiled, const ExecutorOptions& reference,
                                       double tolerance);

}  // namespace isomer::driver
