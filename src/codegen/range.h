// Between which numbers an index expression lies, from the ranges of the loop variables in scope. What is not
// understood has no range; a range never excludes a value that can occur.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <unordered_map>

#include "te/expr.h"

namespace isomer::codegen {

struct Interval {
  int64_t low = 0, high = 0;  // both included
};

class Ranges {
 public:
  void bind(int var, std::optional<Interval> range);
  void unbind(int var);
  std::optional<Interval> of(const te::Expr& e);
  bool nonnegative(const te::Expr& e);
  bool inside(const te::Expr& e, int64_t extent);  // 0 <= e < extent always

 private:
  std::optional<Interval> compute(const te::Node& n);
  std::optional<Interval> binary(const te::Node& n);

  std::map<int, std::optional<Interval>> vars_;
  std::unordered_map<const void*, std::optional<Interval>> memo_;
};

}  // namespace isomer::codegen
