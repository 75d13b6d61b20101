#include "codegen/llvm/emitter.h"
#include "loop/intrinsic.h"

namespace isomer::codegen {

void Emitter::tile(const loop::StmtNode& n) { fail("no code for the intrinsic " + n.intrinsic->name); }

}  // namespace isomer::codegen
