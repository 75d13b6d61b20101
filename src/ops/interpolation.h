// Arithmetic of image sampling as expressions, shared by the operators that read between the points of a grid.
#pragma once

#include "te/expr.h"

namespace isomer::ops {

// The type in which positions and weights are computed for data of this type.
inline DType sampling_type(DType data) { return data == DType::F64 ? DType::F64 : DType::F32; }

// Weight of a point at distance d (at least 0) from the position.
te::Expr linear_weight(const te::Expr& d);
te::Expr cubic_weight(const te::Expr& d, double a);

te::Expr clamped(const te::Expr& i, const te::Expr& extent);  // into 0 .. extent - 1

}  // namespace isomer::ops
