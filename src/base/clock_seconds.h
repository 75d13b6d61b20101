// Seconds on one of the system's clocks: of the world, of the process, of the thread.
#pragma once

#include <ctime>

namespace isomer {

inline double clock_seconds(clockid_t clock) {
  timespec t = {};
  clock_gettime(clock, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

}  // namespace isomer
