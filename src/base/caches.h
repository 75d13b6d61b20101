// The sizes of a core's own data caches, as Linux describes them: folders index0, index1, ... with the files level, type and
// size. Virtual machines, mostly of ARM, leave some or all of them out.
#pragma once

#include <cstdint>
#include <string>

namespace isomer {

struct Caches {
  int64_t l1_bytes = 0, l2_bytes = 0;  // 0: not told
};

Caches read_caches(const std::string& folder = "/sys/devices/system/cpu/cpu0/cache");

}  // namespace isomer
