#include <llvm/Config/llvm-config.h>

#include "codegen/codegen.h"
#include "codegen_version.h"

namespace isomer::codegen {

std::string version() { return "llvm " LLVM_VERSION_STRING ", code " ISOMER_CODEGEN_DIGEST; }

}  // namespace isomer::codegen
