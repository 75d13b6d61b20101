#include "interp/panel_kernel.h"

#include <cstring>

namespace isomer::interp {
namespace {

// Written once for vectors of any width; it is inlined into functions that may use the instructions for it.
template <int Rows, int Vectors, int Bytes>
[[gnu::always_inline]] inline void tile(const double* a, const double* b, int64_t depth, double* sums, int64_t stride) {
  typedef double Vector __attribute__((vector_size(Bytes)));
  constexpr int kWidth = Bytes / 8;
  Vector acc[Rows][Vectors];
  for (int i = 0; i < Rows; ++i)
    for (int v = 0; v < Vectors; ++v) std::memcpy(&acc[i][v], sums + i * stride + v * kWidth, Bytes);
  for (int64_t k = 0; k < depth; ++k, a += Rows, b += Vectors * kWidth) {
    Vector lanes[Vectors];
    for (int v = 0; v < Vectors; ++v) std::memcpy(&lanes[v], b + v * kWidth, Bytes);
    for (int i = 0; i < Rows; ++i)
      for (int v = 0; v < Vectors; ++v) acc[i][v] += a[i] * lanes[v];
  }
  for (int i = 0; i < Rows; ++i)
    for (int v = 0; v < Vectors; ++v) std::memcpy(sums + i * stride + v * kWidth, &acc[i][v], Bytes);
}

void tile_128(const double* a, const double* b, int64_t depth, double* sums, int64_t stride) {
  tile<4, 2, 16>(a, b, depth, sums, stride);
}

#if defined(__x86_64__)
[[gnu::target("avx2")]] void tile_256(const double* a, const double* b, int64_t depth, double* sums, int64_t stride) {
  tile<4, 2, 32>(a, b, depth, sums, stride);
}
[[gnu::target("avx512f")]] void tile_512(const double* a, const double* b, int64_t depth, double* sums,
                                         int64_t stride) {
  tile<8, 2, 64>(a, b, depth, sums, stride);
}
#endif

}  // namespace

std::vector<PanelKernel> panel_kernels() {
  std::vector<PanelKernel> out;
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) out.push_back({"avx512f", 8, 16, tile_512});
  if (__builtin_cpu_supports("avx2")) out.push_back({"avx2", 4, 8, tile_256});
#endif
  out.push_back({"plain", 4, 4, tile_128});
  return out;
}

const PanelKernel& panel_kernel() {
  static const PanelKernel best = panel_kernels().front();
  return best;
}

}  // namespace isomer::interp
