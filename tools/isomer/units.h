// Numbers as people read them: 25.6 M, 102.4 MB; dates.
#pragma once

#include <cstdint>
#include <string>

namespace isomer::tool {

std::string count(int64_t n);
std::string bytes(int64_t n);
std::string duration(double seconds);  // 12.3 us, 4.567 ms, 8.901 s
std::string day(int64_t seconds);      // since 1970, as 2026-11-15; - for none

}  // namespace isomer::tool
