// Row-major reinterpretation: how an index of one shape names an element of another shape of as many elements.
#pragma once

#include <span>
#include <vector>

#include "ir/op.h"

namespace isomer::ops {

// Indices into `to` of the element at indices `i` of `from`. Axes that the two shapes share stay apart, so that a
// reader sees a plain index where nothing is regrouped.
std::vector<te::Expr> reindex(std::span<const te::Expr> i, std::span<const Dim> from, std::span<const Dim> to);
// The program whose one output is input 0 at another shape.
te::Program reshaped(const ir::OpContext& context, std::span<const Dim> dims);

}  // namespace isomer::ops
