#include "ops/table.h"

#include "ops/records.h"

namespace isomer::ops {

const ir::OpTable& table() {
  static const ir::OpTable all({
#define ISOMER_OP(name) op_##name(),
#include "ops/ops.def"
#undef ISOMER_OP
  });
  return all;
}

}  // namespace isomer::ops
