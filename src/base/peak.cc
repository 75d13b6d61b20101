#include "base/peak.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "base/cores.h"

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

// A block of a product of matrices, in registers: panels of the left side [depth][rows] and of the right side [depth][columns].
constexpr int64_t kDepth = 384;

template <class Vector, int kRows>
[[gnu::always_inline]] inline float multiply(const float* left, const float* right) {
  constexpr int64_t kLanes = sizeof(Vector) / sizeof(float);
  Vector sums[kRows][2] = {};
  for (int64_t k = 0; k < kDepth; ++k) {
    Vector y, z;
    std::memcpy(&y, right + k * 2 * kLanes, sizeof(y));
    std::memcpy(&z, right + k * 2 * kLanes + kLanes, sizeof(z));
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i) {
      const Vector x = left[k * kRows + i] - Vector{};  // a sum with zero is not the same to the compiler
      sums[i][0] += x * y;
      sums[i][1] += x * z;
    }
  }
  float total = 0;
#pragma GCC unroll 16
  for (int i = 0; i < kRows; ++i) total += sums[i][0][0] + sums[i][1][0];
  return total;
}

struct Multiplier {
  float (*run)(const float* left, const float* right);
  int rows, lanes;
};

// Sums of all words, so that each is read; wide loads, several at a time, since narrow ones are slower than caches.
template <class Vector>
[[gnu::always_inline]] inline float read_all(const float* words, int64_t count) {
  constexpr int64_t kLanes = sizeof(Vector) / sizeof(float);
  constexpr int64_t kAtOnce = 8;
  Vector sums[kAtOnce] = {};
  for (int64_t i = 0; i + kAtOnce * kLanes <= count; i += kAtOnce * kLanes)
#pragma GCC unroll 8
    for (int64_t k = 0; k < kAtOnce; ++k) {
      Vector v;
      std::memcpy(&v, words + i + k * kLanes, sizeof(v));
      sums[k] += v;
    }
  float total = 0;
#pragma GCC unroll 8
  for (int64_t k = 0; k < kAtOnce; ++k) total += sums[k][0];
  return total;
}

struct Spinner {
  float (*run)(int64_t rounds, float seed);
  int lanes;
};

#if defined(__x86_64__)
[[gnu::target("avx512f")]] float spin_512(int64_t rounds, float seed) { return spin<Vector16>(rounds, seed); }
[[gnu::target("avx2,fma")]] float spin_256(int64_t rounds, float seed) { return spin<Vector8>(rounds, seed); }
[[gnu::target("avx512f")]] float read_512(const float* words, int64_t count) {
  return read_all<Vector16>(words, count);
}
[[gnu::target("avx2,fma")]] float read_256(const float* words, int64_t count) {
  return read_all<Vector8>(words, count);
}
#endif
#if defined(__x86_64__)
[[gnu::target("avx512f")]] float multiply_512(const float* left, const float* right) {
  return multiply<Vector16, 12>(left, right);
}
[[gnu::target("avx2,fma")]] float multiply_256(const float* left, const float* right) {
  return multiply<Vector8, 6>(left, right);
}
#endif
// Of 16 registers on x86-64 and 32 on AArch64.
constexpr int kRows128 = kChains / 2;
float multiply_128(const float* left, const float* right) { return multiply<Vector4, kRows128>(left, right); }

Multiplier widest_multiplier() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) return {multiply_512, 12, 16};
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return {multiply_256, 6, 8};
#endif
  return {multiply_128, kRows128, 4};
}

float spin_128(int64_t rounds, float seed) { return spin<Vector4>(rounds, seed); }

Spinner widest() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) return {spin_512, 16};
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return {spin_256, 8};
#endif
  return {spin_128, 4};
}

float read_128(const float* words, int64_t count) { return read_all<Vector4>(words, count); }

float (*widest_reader())(const float*, int64_t) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) return read_512;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return read_256;
#endif
  return read_128;
}

}  // namespace

double measure_peak_flops(int threads) {
  if (threads <= 0) threads = cores();
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
  static const Multiplier multiplier = widest_multiplier();
  static const std::vector<float> left(static_cast<size_t>(kDepth * multiplier.rows), 0.01F),
      right(static_cast<size_t>(kDepth * multiplier.lanes * 2), 0.02F);
  constexpr int kRounds = 2;
  float sum = multiplier.run(left.data(), right.data());  // wakes up the units, fills the caches
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < kRounds; ++i) sum += multiplier.run(left.data(), right.data());
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (seconds <= 0 || sum == 0.123F) return 0;
  return 2.0 * kRounds * static_cast<double>(kDepth * multiplier.rows * multiplier.lanes * 2) / seconds;
}

double measure_bandwidth(uint64_t bytes) {
  constexpr uint64_t kAlignment = 64;
  const std::unique_ptr<void, decltype(&std::free)> memory(
      std::aligned_alloc(kAlignment, (bytes + kAlignment - 1) / kAlignment * kAlignment), &std::free);
  if (!memory || bytes == 0) return 0;
  std::memset(memory.get(), 0, bytes);
  const auto* words = static_cast<const float*>(memory.get());
  const auto read = widest_reader();
  // Many short ones, as above; of what is larger than that a few.
  constexpr uint64_t kAtOnce = uint64_t{4} << 20;
  constexpr int kTries = 40;
  const uint64_t rounds = std::max<uint64_t>(1, kAtOnce / bytes);
  const int tries = std::max(3, static_cast<int>(kTries * kAtOnce / (rounds * bytes)));
  double best = 1e30;
  float sum = 0;
  for (int i = 0; i < tries; ++i) {
    const auto start = std::chrono::steady_clock::now();
    for (uint64_t r = 0; r < rounds; ++r) {
      sum += read(words, static_cast<int64_t>(bytes / sizeof(float)));
      asm volatile("" ::: "memory");  // what was read once may have changed
    }
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  return sum == 0.123F ? 0 : static_cast<double>(bytes * rounds) / best;
}

}  // namespace isomer
