// Seeded randomness that gives the same numbers on every machine: splitmix64 steps, no library distributions.
#pragma once

#include <cstdint>

namespace isomer {

class Random {
  __extension__ using Wide = unsigned __int128;

 public:
  explicit Random(uint64_t seed) : state_(seed) {}

  uint64_t next() {
    uint64_t z = (state_ += 0x9E3779B97F4A7C15ULL);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
    return z ^ (z >> 31);
  }
  // A number in [0, n); n > 0.
  uint64_t below(uint64_t n) { return static_cast<uint64_t>((static_cast<Wide>(next()) * n) >> 64); }
  // A number in [low, high], both included.
  int64_t between(int64_t low, int64_t high) {
    const uint64_t span = static_cast<uint64_t>(high) - static_cast<uint64_t>(low) + 1;  // 0: all of them
    return static_cast<int64_t>(static_cast<uint64_t>(low) + (span == 0 ? next() : below(span)));
  }
  double uniform() { return static_cast<double>(next() >> 11) * 0x1p-53; }  // [0, 1)
  double uniform(double low, double high) { return low + (high - low) * uniform(); }
  double normal();  // mean 0, variance 1
  bool flip(double probability = 0.5) { return uniform() < probability; }

 private:
  uint64_t state_;
};

}  // namespace isomer
