// Affine: constant + sum of coefficient * axis, the form of most indices and guards. Terms are sorted by axis and have
// nonzero coefficients, so equal forms are equal objects. Built only where no 64-bit overflow happens on the way.
#pragma once

#include <functional>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "te/expr.h"

namespace isomer::interp {

struct Affine {
  int64_t constant = 0;
  std::vector<std::pair<int, int64_t>> terms;  // axis id, coefficient
  bool operator==(const Affine&) const = default;
};

struct Range {  // both ends included
  int64_t low = 0, high = 0;
};

std::optional<Affine> add(const Affine& a, const Affine& b);
std::optional<Affine> scale(const Affine& a, int64_t factor);
std::optional<Affine> subtract(const Affine& a, const Affine& b);

// Values over all points of the axes; nothing when they leave 64 bits or an axis is not known or empty.
using Extents = std::unordered_map<int, int64_t>;
std::optional<Range> range_of(const Affine& a, const Extents& extents);

// Recognises affine expressions of type i64 whose values stay within 64 bits on all points of the axes; remembers what
// it found, since expressions share their parts.
class AffineReader {
 public:
  explicit AffineReader(const Extents& extents) : extents_(extents) {}
  const std::optional<Affine>& read(const te::Expr& e);
  // Asked for x / divisor or x % divisor (rounded down, divisor > 0) as an affine form over axes it may invent; unset:
  // there is none.
  std::function<std::optional<Affine>(const Affine& x, int64_t divisor, bool remainder)> quotient;
  // The forms that are all >= 0 exactly when the condition holds; nothing when it is no conjunction of affine
  // inequalities.
  std::optional<std::vector<Affine>> guards(const te::Expr& condition);

 private:
  const Extents& extents_;
  std::optional<Affine> compute(const te::Expr& e);
  std::optional<Affine> divide(const Affine& x, const Affine& by, bool remainder);
  std::unordered_map<const te::Node*, std::optional<Affine>> known_;
};

}  // namespace isomer::interp
