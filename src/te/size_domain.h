// Sizes as numbers: integers are Dims, which may hold symbols. Evaluating an operator's expression over them follows
// shape arithmetic (Shape, Gather, Concat, Div ...) through a graph without a line of code per operator.
#pragma once

#include <optional>

#include "te/eval.h"
#include "tensor/dim.h"

namespace isomer::te {

struct SizeDomain : DoubleDomain {
  using Int = Dim;
  Int integer(int64_t v) const { return Dim(v); }
  std::optional<Int> size(const Dim& d) const { return d.is_invalid() ? std::nullopt : std::optional<Dim>(d); }
  std::optional<int64_t> known(const Int& v) const { return v.constant(); }
  std::optional<Real> to_real(DType from, const Int& v) const;
  std::optional<Int> to_int(DType to, const Real& v) const;
  Int wrap(DType t, const Int& v) const;
  std::optional<Int> test(UnaryOp op, const Real& x) const { return Dim(int64_t(real_test(op, x))); }
  std::optional<Int> unary_int(UnaryOp op, DType t, const Int& x) const;
  std::optional<Int> compare(BinaryOp op, const Real& a, const Real& b) const {
    return Dim(int64_t(real_compare(op, a, b)));
  }
  std::optional<Int> binary_int(BinaryOp op, DType t, const Int& a, const Int& b) const;
};

}  // namespace isomer::te
