// Seconds on one of the system's clocks (of the world, of the process, of the thread), and since some moment.
#pragma once

#include <chrono>
#include <ctime>

namespace isomer {

inline double clock_seconds(clockid_t clock) {
  timespec t = {};
  clock_gettime(clock, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

inline double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace isomer
