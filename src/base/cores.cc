#include "base/cores.h"

#include <algorithm>
#include <thread>

namespace isomer {

int cores() { return static_cast<int>(std::max(1U, std::thread::hardware_concurrency())); }

}  // namespace isomer
