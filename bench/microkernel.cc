// GFLOP/s of the register tiles on panels in the first-level cache, beside the machine's peak as independent chains of
// multiply-adds measure it. K=256; one thread.
#include <benchmark/benchmark.h>

#include <cstdlib>
#include <memory>

#include "codegen/codegen.h"
#include "loop/intrinsics.h"
#include "runtime/abi.h"

namespace isomer {
namespace {

constexpr int64_t kDepth = 256;

// A chain of multiply-adds for each register that a tile would fill, nothing else.
#if defined(__x86_64__)
#define ISOMER_BENCH_TARGET(features) __attribute__((target(features)))
#else
#define ISOMER_BENCH_TARGET(features)
#endif

template <class V, int kChains>
[[gnu::always_inline]] inline float chains(int64_t n) {
  V sums[kChains];
  V a = V{} + 1.0001f, b = V{} + 0.9999f;
  for (int i = 0; i < kChains; ++i) sums[i] = V{} + static_cast<float>(i);
  asm volatile("" : "+m"(a), "+m"(b));
  for (int64_t k = 0; k < n; ++k)
#pragma GCC unroll 32
    for (int i = 0; i < kChains; ++i) {
#if defined(__aarch64__)
      asm volatile("" : "+w"(a));  // sums are added to in place; else one product would serve them all
      sums[i] += a * b;
#else
      sums[i] = sums[i] * a + b;
#endif
    }
  for (int i = 1; i < kChains; ++i) sums[0] += sums[i];
  return sums[0][0];
}

using V64 [[gnu::vector_size(64)]] = float;
using V32 [[gnu::vector_size(32)]] = float;
using V16 [[gnu::vector_size(16)]] = float;
ISOMER_BENCH_TARGET("avx512f") float chains64(int64_t n) { return chains<V64, 24>(n); }
ISOMER_BENCH_TARGET("avx2,fma") float chains32(int64_t n) { return chains<V32, 12>(n); }
float chains16(int64_t n) { return chains<V16, 24>(n); }

void peak(benchmark::State& state, int vector_bytes) {
  constexpr int64_t kSteps = 10000;
  for (auto _ : state) {
    if (vector_bytes == 64) benchmark::DoNotOptimize(chains64(kSteps));
    if (vector_bytes == 32) benchmark::DoNotOptimize(chains32(kSteps));
    if (vector_bytes == 16) benchmark::DoNotOptimize(chains16(kSteps));
  }
  const double chain_count = vector_bytes == 32 ? 12 : 24;
  const double flops = 2 * chain_count * (vector_bytes / 4) * static_cast<double>(kSteps);
  state.counters["GFLOP/s"] =
      benchmark::Counter(flops * static_cast<double>(state.iterations()) / 1e9, benchmark::Counter::kIsRate);
}

// Packed panels: A as [k][m], B as [k][n]. `repeats` tiles in one call, so that the call costs nothing.
loop::Function panel_product(const loop::IntrinsicPtr& tile, DType dtype, int64_t rows, int64_t columns, bool packed) {
  constexpr int64_t kRepeats = 64;
  loop::Function f;
  f.name = "panel";
  const std::vector<int64_t> a_dims = packed ? std::vector<int64_t>{kDepth, rows} : std::vector<int64_t>{rows, kDepth};
  f.buffers = {{"A", dtype, a_dims, loop::Scope::Argument, false},
               {"B", dtype, {kDepth, columns}, loop::Scope::Argument, false},
               {"C", dtype, {rows, columns}, loop::Scope::Argument, true}};
  f.arguments = 3;
  const te::Expr zero(0);
  std::vector<loop::TileOperand> operands = {{0, {zero, zero}, {packed ? 1 : kDepth, 0, packed ? rows : 1}},
                                             {1, {zero, zero}, {0, 1, columns}},
                                             {2, {zero, zero}, {columns, 1, 0}}};
  f.body = loop::Stmt::loop(0, "r", te::Expr(kRepeats), loop::LoopKind::Parallel,
                            loop::Stmt::tile(tile, operands, {te::Expr(rows), te::Expr(columns), te::Expr(kDepth)}));
  return f;
}

// Bytes: A as [m][k][4], B as [k][n][4].
loop::Function byte_product(const loop::IntrinsicPtr& tile, int64_t rows, int64_t columns) {
  constexpr int64_t kRepeats = 64;
  loop::Function f;
  f.name = "bytes";
  f.buffers = {{"A", tile->meaning.inputs[0].dtype, {rows, kDepth, 4}, loop::Scope::Argument, false},
               {"B", tile->meaning.inputs[1].dtype, {kDepth, columns, 4}, loop::Scope::Argument, false},
               {"C", DType::I32, {rows, columns}, loop::Scope::Argument, true}};
  f.arguments = 3;
  const te::Expr zero(0);
  std::vector<loop::TileOperand> operands = {{0, {zero, zero, zero}, {4 * kDepth, 0, 4, 1}},
                                             {1, {zero, zero, zero}, {0, 4, 4 * columns, 1}},
                                             {2, {zero, zero}, {columns, 1, 0, 0}}};
  f.body = loop::Stmt::loop(
      0, "r", te::Expr(kRepeats), loop::LoopKind::Parallel,
      loop::Stmt::tile(tile, operands, {te::Expr(rows), te::Expr(columns), te::Expr(kDepth), te::Expr(4)}));
  return f;
}

void tile(benchmark::State& state, const loop::IntrinsicPtr& intrinsic, DType dtype, int64_t rows, bool packed) {
  const auto columns = *intrinsic->meaning.stages[0].axes[1].extent.constant();
  const bool bytes_of_4 = intrinsic->emit == loop::Emit::DotProduct;
  const loop::Function f =
      bytes_of_4 ? byte_product(intrinsic, rows, columns) : panel_product(intrinsic, dtype, rows, columns, packed);
  auto target = codegen::host_target();
  auto objects = codegen::emit_objects({&f, 1}, *target);
  auto jit = codegen::Jit::load(*objects);
  auto* kernel = reinterpret_cast<iso_kernel>(jit->find(f.name));
  std::vector<std::unique_ptr<void, decltype(&std::free)>> memory;
  void* arguments[3];
  for (size_t i = 0; i < 3; ++i) {
    const size_t bytes = (static_cast<size_t>(f.buffers[i].elements()) * size_of(f.buffers[i].dtype) + 127) / 64 * 64;
    memory.emplace_back(std::aligned_alloc(64, bytes), &std::free);
    std::fill_n(static_cast<char*>(memory.back().get()), bytes, char{0});
    arguments[i] = memory.back().get();
  }
  for (auto _ : state) kernel(arguments, 0, f.tasks(), nullptr);
  const auto flops = static_cast<double>(2 * rows * columns * kDepth * f.tasks() * (bytes_of_4 ? 4 : 1));
  state.counters["GFLOP/s"] =
      benchmark::Counter(flops * static_cast<double>(state.iterations()) / 1e9, benchmark::Counter::kIsRate);
}

int register_all() {
  const auto target = codegen::host_target();
  if (!target.ok()) return 0;
  benchmark::RegisterBenchmark("peak", peak, target->vector_bytes);
  for (const DType dtype : {DType::F32, DType::F64})
    for (const loop::IntrinsicPtr& i : loop::intrinsics_for(*target, dtype)) {
      auto add = [&](const char* kind, int64_t rows, bool packed) {
        benchmark::RegisterBenchmark((i->name + kind).c_str(), tile, i, dtype, rows, packed);
      };
      const int64_t rows = *i->meaning.stages[0].axes[0].extent.constant();
      add("", rows, true);
      add("/rows_of_A", rows, false);
      if (rows > 4) add("/3_rows", 3, true);
    }
  for (const auto& [left, right] : {std::pair(DType::U8, DType::I8), std::pair(DType::I8, DType::I8)})
    for (const loop::IntrinsicPtr& i : loop::dot_products_for(*target, left, right))
      benchmark::RegisterBenchmark(i->name.c_str(), tile, i, DType::I32,
                                   *i->meaning.stages[0].axes[0].extent.constant(), true);
  return 0;
}

const int registered = register_all();

}  // namespace
}  // namespace isomer
