// Running the linker: objects in memory -> a shared library in memory, by way of a folder that is removed again.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/expected.h"
#include "loop/target.h"

namespace isomer::compile {

struct LinkInput {
  std::string name;  // for messages
  std::string_view bytes;
};

// The linker that will be used: $ISOMER_LINKER, else ld.lld-19 or ld.lld on the path or among LLVM's programs.
Expected<std::string> find_linker();

// Symbols that no object has must be among the ones of libc, libm and libpthread that generated code may call. The library
// names those of the three that it needs.
Expected<std::string> link_shared(loop::Arch arch, const std::vector<LinkInput>& objects);

}  // namespace isomer::compile
