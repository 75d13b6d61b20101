// Inputs whose contents are sizes, axes or counts: how operators read and check them.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "ir/op.h"

namespace isomer::ops {

// No operator makes a tensor of more axes than this.
inline constexpr size_t kMaxRank = 64;

// Input i, a vector, as dims: a dim that is not known is invalid; of unknown rank when even the length is not known.
Expected<Shape> shape_operand(const ir::OpContext& context, size_t i);
// The same where negative numbers are an error.
Expected<Shape> size_operand(const ir::OpContext& context, size_t i);
// Input i, a vector of axes, as sorted-by-position axis numbers; nothing when not known. A repeated axis is an error.
Expected<std::optional<std::vector<size_t>>> axes_operand(const ir::OpContext& context, size_t i, size_t rank);
Expected<std::vector<size_t>> resolve_axes(const ir::OpContext& context, std::span<const int64_t> axes, size_t rank);
// Input i, a scalar or a vector of one, as a size when known.
Expected<std::optional<Dim>> scalar_operand(const ir::OpContext& context, size_t i);

// Says that an expression cannot be written without the contents of input i.
Diagnostic needs_value(const ir::OpContext& context, size_t i);
// Dims that all are known, for `compute`.
Expected<std::vector<Dim>> known_dims(const ir::OpContext& context, const Shape& shape, size_t i);
// One dim from two that must be equal: the number where there is one; a diagnostic when two numbers differ.
Expected<Dim> same_dim(const ir::OpContext& context, const Dim& a, const Dim& b, const char* what);

}  // namespace isomer::ops
