#include "base/peak.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <thread>
#include <vector>

namespace isomer {
namespace {

// Enough to hide the latency of all units: two on x86-64, with 16 registers at the least, four on AArch64.
#if defined(__aarch64__)
constexpr int kChains = 24;
#else
constexpr int kChains = 12;
#endif

typedef float Vector4 __attribute__((vector_size(16)));
typedef float Vector8 __attribute__((vector_size(32)));
typedef float Vector16 __attribute__((vector_size(64)));

// One link of a chain, in the form that is one instruction without a copy. AArch64 adds to its sum in place: x is made to look
// new every time, since one product would else serve all chains.
template <class Vector>
[[gnu::always_inline]] inline void advance(Vector& a, Vector& x, const Vector& y) {
#if defined(__aarch64__)
  asm volatile("" : "+w"(x));
  a += x * y;
#else
  a = a * x + y;
#endif
}

// Independent chains; one number that depends on all of them.
template <class Vector>
[[gnu::always_inline]] inline float spin(int64_t rounds, float seed) {
  Vector a[kChains];
  for (int i = 0; i < kChains; ++i) a[i] = Vector{} + seed + static_cast<float>(i);
  Vector x = Vector{} + 0.999F;
  const Vector y = Vector{} + seed;
  for (int64_t r = 0; r < rounds; ++r)
#pragma GCC unroll 32
    for (int i = 0; i < kChains; ++i) advance(a[i], x, y);
  float total = 0;
  for (const Vector& v : a) total += v[0] + v[1];
  return total;
}

struct Spinner {
  float (*run)(int64_t rounds, float seed);
  int lanes;
};

#if defined(__x86_64__)
[[gnu::target("avx512f")]] float spin_512(int64_t rounds, float seed) { return spin<Vector16>(rounds, seed); }
[[gnu::target("avx2,fma")]] float spin_256(int64_t rounds, float seed) { return spin<Vector8>(rounds, seed); }
#endif
float spin_128(int64_t rounds, float seed) { return spin<Vector4>(rounds, seed); }

Spinner widest() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) return {spin_512, 16};
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return {spin_256, 8};
#endif
  return {spin_128, 4};
}

}  // namespace

double measure_peak_flops(int threads) {
  if (threads <= 0) threads = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  const Spinner spinner = widest();
  // Many short ones: a core that is shared has its full rate for milliseconds at a time.
  constexpr int64_t kRounds = 20000;
  constexpr int kTries = 400;
  std::vector<double> best(static_cast<size_t>(threads), 1e30);
  std::vector<float> sink(static_cast<size_t>(threads));
  const auto work = [&](size_t t) {
    for (int i = 0; i < kTries; ++i) {
      const auto start = std::chrono::steady_clock::now();
      sink[t] += spinner.run(kRounds, static_cast<float>(i));
      best[t] = std::min(best[t], std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    }
  };
  std::vector<std::thread> others;
  for (size_t t = 1; t < best.size(); ++t) others.emplace_back(work, t);
  work(0);
  for (std::thread& t : others) t.join();
  double total = 0;
  for (const double seconds : best) total += 2.0 * kRounds * kChains * spinner.lanes / seconds;
  return sink[0] == 0.123F ? 0 : total;  // the sums must not be optimised away
}

double momentary_flops() {
  static const Spinner spinner = widest();
  constexpr int64_t kRounds = 2000;
  float sum = spinner.run(kRounds / 2, 1);  // wakes up the units
  const auto start = std::chrono::steady_clock::now();
  sum += spinner.run(kRounds, sum);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return seconds <= 0 || sum == 0.123F ? 0 : 2.0 * kRounds * kChains * spinner.lanes / seconds;
}

}  // namespace isomer
