// Numbers as people read them: 25.6 M, 102.4 MB.
#pragma once

#include <cstdint>
#include <string>

namespace isomer::tool {

std::string count(int64_t n);
std::string bytes(int64_t n);

}  // namespace isomer::tool
