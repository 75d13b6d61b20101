// The runtime that goes into a module, compiled when Isomer was built: one list of ELF objects per architecture, empty for
// one that this build cannot serve.
#pragma once

#include <string_view>
#include <vector>

#include "loop/target.h"

namespace isomer::compile {

struct RuntimeObject {
  std::string_view name;
  std::string_view bytes;
};

std::vector<RuntimeObject> runtime_objects(loop::Arch arch);

}  // namespace isomer::compile
