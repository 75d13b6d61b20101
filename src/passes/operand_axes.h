// Where an axis of a node's result lies in its operands, read off the operator's meaning: along such an axis the node
// computes each slice of its result from the same slice of those operands, and from the whole of the others.
#pragma once

#include <optional>
#include <vector>

#include "ir/op.h"

namespace isomer::passes {

// Per operand as written: its axis, or nothing where the whole of it is read. Nothing at all where slices of the result need
// more than that (a window, a sum along the axis, a comparison with the place).
using OperandAxes = std::vector<std::optional<size_t>>;
std::optional<OperandAxes> operand_axes(const ir::OpContext& context, size_t axis, size_t result = 0);

}  // namespace isomer::passes
