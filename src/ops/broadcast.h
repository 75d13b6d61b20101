// Numpy broadcasting of shapes, shared by every operator that has it.
#pragma once

#include <span>
#include <vector>

#include "ir/op.h"

namespace isomer::ops {

// The common shape, or a diagnostic that names the axis that does not fit. Where one side is a symbol and the other a
// number above 1, the number is taken; two different symbols leave the dim unknown.
Expected<std::vector<Dim>> broadcast_dims(const ir::OpContext& context, std::span<const std::vector<Dim>> shapes);
// Of all present inputs from `first` on.
Expected<std::vector<Dim>> broadcast_inputs(const ir::OpContext& context, size_t first = 0);

}  // namespace isomer::ops
