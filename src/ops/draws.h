// Draws: random numbers of a seed, the same that numpy's RandomState gives, so that a seeded draw agrees with the reference
// implementation of ONNX: a Mersenne twister, 53 bits for a uniform number, normal ones by the polar method.
#pragma once

#include <cmath>
#include <optional>
#include <random>
#include <utility>

namespace isomer::ops {

class Draws {
 public:
  explicit Draws(double seed) : bits_(seed >= 0 && seed < 0x1p32 ? static_cast<uint32_t>(seed) : 0) {}

  // In [0, 1).
  double uniform() {
    const uint32_t high = bits_() >> 5, low = bits_() >> 6;
    return (high * 0x1p26 + low) / 0x1p53;
  }
  double normal() {
    if (next_) return *std::exchange(next_, std::nullopt);
    double a = 0, b = 0, square = 0;
    do {
      a = 2 * uniform() - 1;
      b = 2 * uniform() - 1;
      square = a * a + b * b;
    } while (square >= 1 || square == 0);
    const double scale = std::sqrt(-2 * std::log(square) / square);
    next_ = scale * a;
    return scale * b;
  }
  // As a binomial draw of one trial: by inversion, from the rarer side.
  bool flip(double chance) { return chance > 0.5 ? uniform() <= chance : uniform() > 1 - chance; }

 private:
  std::mt19937 bits_;
  std::optional<double> next_;
};

}  // namespace isomer::ops
