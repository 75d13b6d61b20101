// ISOMER_ASSERT: our own bug, never the user's input. Prints the broken invariant and the place, then aborts.
#pragma once

#include <string>

namespace isomer {

[[noreturn]] void check_failed(const char* condition, const std::string& detail, const char* file = __builtin_FILE(),
                               int line = __builtin_LINE());

}  // namespace isomer

#define ISOMER_ASSERT(condition, detail) \
  (static_cast<bool>(condition) ? void(0) : ::isomer::check_failed(#condition, (detail), __FILE__, __LINE__))
