#include "cost/core_rate.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <thread>

#include "base/peak.h"
#include "loop/intrinsic.h"
#include "loop/intrinsics.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace isomer::cost {
namespace {

// Of the usual rate: a core's clock alone moves it so far. Beside a neighbour vectors have 0.45 to 0.67 of their rate, tile
// registers 0.3.
constexpr double kLow = 0.8, kHigh = 1.25;
// Measured beside a neighbour: what comes from memory alone takes 2^0.2 times as long at half the rate of the vectors.
constexpr double kMemoryShare = 0.2;
constexpr double kNearly = 0.7;  // of the moments of the rate that most have

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

Rates core_rates(const loop::Target& target) {
  return {core_rate(Units::Vectors, target), core_rate(Units::Tiles, target)};
}

Rates mean_of(const std::vector<Rates>& rates) {
  Rates out;
  const auto count = static_cast<double>(rates.size());
  for (const Rates& r : rates) out = {out.vectors + r.vectors / count, out.tiles + r.tiles / count};
  return out;
}

Rates mean_core_rates(const loop::Target& target, int threads) {
  std::vector<Rates> rates(static_cast<size_t>(std::max(threads, 1)));
  // All of them are awake, and on cores of their own, before one looks.
  std::atomic<size_t> awake = 0;
  const auto look = [&](Rates& own) {
    for (++awake; awake < rates.size();) std::this_thread::yield();
    own = core_rates(target);
  };
  std::vector<std::thread> others;
  for (size_t t = 1; t < rates.size(); ++t) others.emplace_back([&, t] { look(rates[t]); });
  look(rates[0]);
  for (std::thread& t : others) t.join();
  return mean_of(rates);
}

Units fastest_units(const loop::Target& target) {
  return loop::split_product_for(target) ? Units::Tiles : Units::Vectors;
}

Units units_of(const loop::Function& function, const loop::Target& target) {
  return uses_tile_registers(function) ? fastest_units(target) : Units::Vectors;
}

std::vector<Rates> survey(const loop::Target& target, int threads, int moments) {
  using Clock = std::chrono::steady_clock;
  std::vector<std::vector<Rates>> seen(static_cast<size_t>(std::max(threads, 1)));
  const auto start = Clock::now();
  const auto look = [&](std::vector<Rates>& out) {
    for (int i = 0; i < moments; ++i) {
      Rates m;
      // The units are kept awake up to the moment.
      do m = core_rates(target);
      while (Clock::now() < start + std::chrono::milliseconds(i));
      out.push_back(m);
    }
  };
  std::vector<std::thread> others;
  for (size_t t = 1; t < seen.size(); ++t) others.emplace_back([&, t] { look(seen[t]); });
  look(seen[0]);
  for (std::thread& t : others) t.join();
  std::vector<Rates> out(seen[0].size());
  const auto count = static_cast<double>(seen.size());
  for (const std::vector<Rates>& thread : seen)
    for (size_t i = 0; i < out.size(); ++i)
      out[i] = {out[i].vectors + thread[i].vectors / count, out[i].tiles + thread[i].tiles / count};
  return out;
}

Rates usual_rates(const std::vector<Rates>& moments, Units units) {
  if (moments.empty()) return {};
  std::vector<double> rates;
  for (const Rates& m : moments) rates.push_back(m.of(units));
  std::sort(rates.begin(), rates.end());
  const auto count_from = [&](double low) {
    return static_cast<double>(std::upper_bound(rates.begin(), rates.end(), kHigh * low) -
                               std::lower_bound(rates.begin(), rates.end(), low));
  };
  double most = 0;
  for (const double r : rates) most = std::max(most, count_from(r));
  const double low =
      *std::find_if(rates.rbegin(), rates.rend(), [&](double r) { return count_from(r) >= kNearly * most; });
  std::vector<Rates> usual;
  for (const Rates& m : moments)
    if (m.of(units) >= low && m.of(units) <= kHigh * low) usual.push_back(m);
  const auto middle = [&](Units u) {
    const auto at = usual.begin() + static_cast<long>(usual.size() / 2);
    std::nth_element(usual.begin(), at, usual.end(), [u](const Rates& a, const Rates& b) { return a.of(u) < b.of(u); });
    return at->of(u);
  };
  const double vectors = middle(Units::Vectors);
  return {vectors, middle(Units::Tiles)};
}

void Mix::add(const Mix& other) {
  vectors += other.vectors;
  tiles += other.tiles;
  memory += other.memory;
}

Mix Mix::scaled_to(double wanted) const {
  const double factor = seconds() > 0 ? wanted / seconds() : 0;
  return {factor * vectors, factor * tiles, factor * memory};
}

double Mix::slowdown(const Rates& now, const Rates& usual) const {
  const auto of = [&](Units u) { return now.of(u) > 0 && usual.of(u) > 0 ? usual.of(u) / now.of(u) : 1; };
  const double core = of(Units::Vectors);
  const double then = vectors * core + tiles * of(Units::Tiles) + memory * std::pow(core, kMemoryShare);
  return seconds() > 0 ? then / seconds() : 1;
}

double seconds_of(const WatchedRun& run) {
  return std::accumulate(run.begin(), run.end(), 0.0, [](double s, const WatchedStretch& p) { return s + p.seconds; });
}

double at_usual_rates(const WatchedRun& run, const Rates& usual, const Mix& mix) {
  double out = 0;
  for (const WatchedStretch& s : run) out += s.seconds / mix.slowdown(s.rates, usual);
  return out;
}

bool is_usual(double rate, double usual) { return usual <= 0 || (rate >= kLow * usual && rate <= kHigh * usual); }

}  // namespace isomer::cost
