// Whether an operator reduces: some element of its results is a sum, a maximum or the like over an axis. What does not only moves
// elements or computes them one by one.
#pragma once

#include "ir/op.h"

namespace isomer::ir {

// At these types; a composite when a part of it does.
bool reduces(const OpContext& context);

}  // namespace isomer::ir
