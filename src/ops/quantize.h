// Scales and zero points: how quantised integers and real numbers stand for each other, as every quantised operator
// writes it. real = (integer - zero) * scale; integer = saturate(round_half_even(real / scale) + zero).
#pragma once

#include <optional>
#include <span>

#include "ir/op.h"

namespace isomer::ops {

inline constexpr DTypeSet kBytes = DTypeSet(DType::I8) | DType::U8;
inline constexpr DTypeSet kScales = DTypeSet(DType::F32) | DType::F16 | DType::BF16;

// Rounds to the element type as storing would. Quantised results are exact only when every float step rounds where
// the operator's definition does it.
te::Expr stored(const te::Expr& x);

// The integer of type `to` for a real that is already divided by its scale. Casts saturate.
te::Expr to_quantised(DType to, const te::Expr& ratio, const te::Expr& zero_point);

// A parameter that is one number (rank 0, or one element) or has one number per element of an axis.
struct PerAxis {
  te::Handle handle;
  bool present = false;
  te::Expr at(const te::Expr& index) const;  // `index`: position on the axis
};
// Input `i`, checked: rank 0, [1], or [extent].
Expected<PerAxis> per_axis(const ir::OpContext& context, std::span<const te::Handle> in, size_t i, const Dim& extent);
// Input `i`, checked to be one number.
Expected<PerAxis> one_number(const ir::OpContext& context, std::span<const te::Handle> in, size_t i);

// Input x as I32 with its zero point taken off, as a stage; `zero` gives the zero point at an index of x.
te::Handle centred(te::Builder& builder, const te::Handle& x, bool has_zero,
                   const std::function<te::Expr(std::span<const te::Expr>)>& zero);

}  // namespace isomer::ops
