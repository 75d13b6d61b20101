#include "cost/tile_rate.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>

#include "loop/intrinsic.h"
#include "loop/intrinsics.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace isomer::cost {
namespace {

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

double tile_register_rate([[maybe_unused]] const loop::Target& target) {
#if defined(__x86_64__)
  if (target.name != "host" || !loop::split_product_for(target)) return 0;
  const double seconds = seconds_of_products();
  return seconds > 0 ? kOperations * kRounds / seconds : 0;
#else
  return 0;
#endif
}

}  // namespace isomer::cost
