// How many cases a test tries and from which seed: a number from the environment, so that one failing case can be run alone.
#pragma once

#include <cstdint>
#include <cstdlib>

namespace isomer::testing {

inline uint64_t setting(const char* variable, uint64_t otherwise) {
  const char* text = std::getenv(variable);
  return text ? std::strtoull(text, nullptr, 10) : otherwise;
}

}  // namespace isomer::testing
