#include "base/check.h"

#include <cstdio>
#include <cstdlib>

namespace isomer {

void check_failed(const char* condition, const std::string& detail, const char* file, int line) {
  std::fprintf(stderr, "isomer: internal error: %s does not hold at %s:%d: %s\n", condition, file, line,
               detail.c_str());
  std::fprintf(stderr, "This is a bug in Isomer; please report it with the command and the model.\n");
  std::_Exit(3);
}

}  // namespace isomer
