// Declares the function that makes each operator's record: op_add() and so on, one per line of ops.def.
#pragma once

#include "ir/op.h"

namespace isomer::ops {

#define ISOMER_OP(name) ir::OpDef op_##name();
#include "ops/ops.def"
#undef ISOMER_OP

}  // namespace isomer::ops
