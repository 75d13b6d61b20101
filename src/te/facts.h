// One node for each structure, with what is known about its value. Nodes that went through a Facts table are equal iff
// they are the same node, whatever the depth; all that is known about a node follows from its operands, once.
#pragma once

#include <unordered_map>
#include <vector>

#include "te/expr.h"

namespace isomer::te {

// Longer sums and products are kept as they are: flattening must not make a deep chain quadratic.
inline constexpr uint32_t kMaxAffineTerms = 24;
inline constexpr uint32_t kMaxFactors = 16;

__extension__ using Int128 = __int128;

// The values an integer or boolean expression may have; unsigned 64-bit numbers as they are meant, not as stored.
struct Bounds {
  Int128 low = 0, high = 0;
  bool point() const { return low == high; }
};

struct Fact {
  Bounds bounds;  // integers and booleans only
  // i64 arithmetic over axes, sizes and small literals whose value is the mathematical one: by interval arithmetic, or,
  // where symbolic sizes take part, because programs are written so that their indices do not overflow.
  bool index = false;
  bool symbolic = false;  // has a size or an axis whose extent is not a number
  // Of the sum and the product that affine.h sees in it; those over the limits count as one.
  uint32_t terms = 1, factors = 1;
  uint64_t operations = 0;  // a bit for each that is in it, as operations_of(Node) says
};

// The operation of the node itself: 0 for literals, variables, reads, and for sums, differences and products, which matching sees
// through.
uint64_t operations_of(const Node& n);

class Facts {
 public:
  // Axes give the variables' ranges. An axis that is given twice has the wider range.
  void add_axis(const Axis& axis);
  const Dim* extent(int axis) const;

  Expr intern(Node node);  // the node's operands are interned
  const Fact& operator[](const Expr& interned) const { return facts_.at(interned.identity()); }

  // A total order by content: axes by id, sizes, the rest, literals last.
  bool before(const Expr& a, const Expr& b) const;

  static constexpr int64_t kLargestIndexLiteral = int64_t{1} << 40;

 private:
  Fact fact_of(const Node& n) const;
  Bounds bounds_of(const Node& n) const;
  Bounds binary_bounds(const Node& n) const;
  uint32_t terms_in(const Node& n) const;
  uint32_t factors_in(const Node& n) const;

  std::unordered_map<int, Dim> extents_;
  std::unordered_map<Hash128, std::vector<Expr>> table_;
  std::unordered_map<const void*, Fact> facts_;
};

Bounds type_bounds(DType type);  // integers and Bool
// An integer literal's value as it is meant.
Int128 meant(const Node& literal);

}  // namespace isomer::te
