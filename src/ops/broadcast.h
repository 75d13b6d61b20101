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
// Fails when input i does not broadcast to exactly `dims`; what symbols leave open is let through.
Expected<void> check_broadcasts_to(const ir::OpContext& context, size_t i, std::span<const Dim> dims);

}  // namespace isomer::ops
