#include "cost/core_rate.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>

#include "base/peak.h"
#include "loop/intrinsic.h"
#include "loop/intrinsics.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace isomer::cost {
namespace {

// Of the best rate. Tile registers: the same core gives from 0.6 of it up by its clock, beside a neighbour 0.3. Vectors: from 0.9
// up, beside a neighbour 0.45 to 0.67.
constexpr double kFullTiles = 0.45, kFullVectors = 0.75;

bool uses(const loop::Stmt& s) {
  if (s->kind == loop::StmtKind::Tile) return s->intrinsic->emit == loop::Emit::SplitProduct;
  return std::any_of(s->body.begin(), s->body.end(), [](const loop::Stmt& b) { return uses(b); });
}

#if defined(__x86_64__)
constexpr int kWarmUp = 250, kRounds = 250;
constexpr double kOperations = 4.0 * 2 * 16 * 16 * 32;  // of a round

struct alignas(64) Shape {
  uint8_t palette = 1, start = 0, reserved[14] = {};
  uint16_t bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};

// Numbers as a network has them: a core that is short of power multiplies zeros at nearly its full rate.
struct alignas(64) Numbers {
  std::array<uint16_t, 4 * 16 * 32> values{};
  Numbers() {
    uint32_t state = 1;
    for (uint16_t& v : values) {
      state = state * 1664525 + 1013904223;
      v = static_cast<uint16_t>(0x3e00 | (state >> 24) | (state >> 8 & 0x8000));  // 1/8 to 1/2, either sign
    }
  }
};

__attribute__((target("amx-tile,amx-bf16"))) void multiply(int rounds) {
  for (int i = 0; i < rounds; ++i) {
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
}

__attribute__((target("amx-tile,amx-bf16"))) double seconds_of_products() {
  static const Shape shape;
  static const Numbers numbers;
  const uint16_t* from = numbers.values.data();
  _tile_loadconfig(&shape);
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  _tile_loadd(4, from, 64);
  _tile_loadd(5, from + 16 * 32, 64);
  _tile_loadd(6, from + 2 * 16 * 32, 64);
  _tile_loadd(7, from + 3 * 16 * 32, 64);
  multiply(kWarmUp);
  const auto start = std::chrono::steady_clock::now();
  multiply(kRounds);
  const auto end = std::chrono::steady_clock::now();
  _tile_release();
  return std::chrono::duration<double>(end - start).count();
}
#endif

}  // namespace

bool uses_tile_registers(const loop::Function& function) { return !function.body.empty() && uses(function.body); }

static double tile_rate([[maybe_unused]] const loop::Target& target) {
#if defined(__x86_64__)
  if (!loop::split_product_for(target)) return 0;
  const double seconds = seconds_of_products();
  return seconds > 0 ? kOperations * kRounds / seconds : 0;
#else
  return 0;
#endif
}

double core_rate(Units units, const loop::Target& target) {
  if (target.name != "host") return 0;
  return units == Units::Tiles ? tile_rate(target) : momentary_flops();
}

Units fastest_units(const loop::Target& target) {
  return loop::split_product_for(target) ? Units::Tiles : Units::Vectors;
}

Units units_of(const loop::Function& function, const loop::Target& target) {
  return uses_tile_registers(function) ? fastest_units(target) : Units::Vectors;
}

void BestRates::see(Units units, double rate) {
  double& best = units == Units::Tiles ? tiles_ : vectors_;
  best = std::max(best, rate);
}

void BestRates::see(const BestRates& others) {
  for (const Units u : {Units::Vectors, Units::Tiles}) see(u, others.of(u));
}

double BestRates::least_full(Units units) const {
  return (units == Units::Tiles ? kFullTiles : kFullVectors) * of(units);
}

}  // namespace isomer::cost
