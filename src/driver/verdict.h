// Verdict: what checking and timing an optimised model came to, in a form that the store of kernel times keeps: the same
// question about the same bytes need not be asked twice.
#pragma once

#include <optional>
#include <string>

#include "driver/optimize.h"

namespace isomer::driver {

struct Verdict {
  std::string result;  // content hash of the graph that was checked
  int64_t when = 0;    // seconds since 1970
  bool changed = false;
  std::string why_not;
  size_t input_sets = 0;
  std::vector<OutputError> errors, own_errors;
  Figures before, after;
};

std::string print(const Verdict& verdict);
std::optional<Verdict> parse_verdict(const std::string& text);  // nothing where it is none

}  // namespace isomer::driver
