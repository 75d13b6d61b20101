// The table of all operators: one record each, listed in ops.def in sorted order.
#pragma once

#include "ir/op.h"

namespace isomer::ops {

const ir::OpTable& table();

}  // namespace isomer::ops
