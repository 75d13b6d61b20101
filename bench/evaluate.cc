// Speed of the evaluator on the shapes of programs that networks are made of; "ops" are multiply-adds or elements.
#include "interp/evaluate.h"

#include <benchmark/benchmark.h>

#include "base/random.h"
#include "tensor/random_fill.h"

namespace isomer::interp {
namespace {

using te::Axis;
using te::Builder;
using te::Expr;
using te::Handle;

void run(benchmark::State& state, const te::Program& program, double operations) {
  Random random(1);
  std::vector<Tensor> inputs;
  for (const te::Source& s : program.inputs) {
    std::vector<int64_t> dims;
    for (const Dim& d : s.dims) dims.push_back(d.value());
    inputs.push_back(random_tensor(s.dtype, dims, random));
  }
  std::vector<const Tensor*> pointers;
  for (const Tensor& t : inputs) pointers.push_back(&t);
  Options options;
  options.threads = 1;
  Session session(options);
  for (auto _ : state) {
    const auto result = evaluate(program, pointers, session);
    if (!result.ok()) state.SkipWithError(result.error().to_string().c_str());
  }
  state.counters["ns_per_op"] =
      benchmark::Counter(operations / 1e9, benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}

void matmul(benchmark::State& state) {
  const int64_t n = state.range(0);
  Builder b;
  const Handle x = b.input("x", DType::F32, {n, n}), y = b.input("y", DType::F32, {n, n});
  const Axis k = b.axis("k", n);
  const std::vector<Dim> dims = {n, n};
  const Handle z = b.map("z", DType::F32, dims, [&](auto i) { return te::sum({k}, x(i[0], k) * y(k, i[1])); });
  run(state, b.finish({z}), static_cast<double>(n * n * n));
}

void convolution(benchmark::State& state) {
  const int64_t size = state.range(0), channels = state.range(1), kernel = 3;
  Builder b;
  const Handle x = b.input("x", DType::F32, {channels, size, size});
  const Handle w = b.input("w", DType::F32, {channels, channels, kernel, kernel});
  const std::vector<Dim> dims = {channels, size, size}, reduced = {channels, kernel, kernel};
  const Handle y = b.map("y", DType::F32, dims, [&](auto i) {
    const std::vector<Axis> r = b.axes("r", reduced);
    const Expr h = i[1] + Expr(r[1]) - Expr(1), v = i[2] + Expr(r[2]) - Expr(1);
    const Expr inside = te::in_range(h, Expr(size)) && te::in_range(v, Expr(size));
    return te::sum(r, te::select(inside, x(r[0], h, v), Expr::real(DType::F32, 0)) * w(i[0], r[0], r[1], r[2]));
  });
  run(state, b.finish({y}), static_cast<double>(channels * channels * size * size * kernel * kernel));
}

void max_pool(benchmark::State& state) {
  const int64_t size = 112, channels = 64;
  Builder b;
  const Handle x = b.input("x", DType::F32, {channels, size, size});
  const std::vector<Dim> dims = {channels, size / 2, size / 2}, reduced = {3, 3};
  const Handle y = b.map("y", DType::F32, dims, [&](auto i) {
    const std::vector<Axis> r = b.axes("r", reduced);
    const Expr h = i[1] * Expr(2) + Expr(r[0]) - Expr(1), v = i[2] * Expr(2) + Expr(r[1]) - Expr(1);
    return te::reduce(te::Combiner::Max, r, x(i[0], h, v), te::in_range(h, Expr(size)) && te::in_range(v, Expr(size)));
  });
  run(state, b.finish({y}), static_cast<double>(channels * size * size / 4 * 9));
}

void integer_matmul(benchmark::State& state) {
  const int64_t n = 256;
  Builder b;
  const Handle x = b.input("x", DType::U8, {n, n}), y = b.input("y", DType::I8, {n, n});
  const Axis k = b.axis("k", n);
  const std::vector<Dim> dims = {n, n};
  const Handle z = b.map("z", DType::I32, dims, [&](auto i) {
    return te::sum({k}, (te::cast(DType::I32, x(i[0], k)) - Expr(3)) * te::cast(DType::I32, y(k, i[1])));
  });
  run(state, b.finish({z}), static_cast<double>(n * n * n));
}

// Two simple operations per element: a sum and a maximum.
void elementwise(benchmark::State& state) {
  const int64_t n = state.range(0);
  Builder b;
  const std::vector<Dim> dims = {64, n};
  const Handle x = b.input("x", DType::F32, dims), y = b.input("y", DType::F32, dims);
  const Handle z = b.map("z", DType::F32, dims,
                         [&](auto i) { return te::max(x(i[0], i[1]) + y(i[0], i[1]), Expr::real(DType::F32, 0)); });
  run(state, b.finish({z}), static_cast<double>(2 * 64 * n));
}

void softmax(benchmark::State& state) {
  const int64_t rows = 512, n = 512;
  Builder b;
  const std::vector<Dim> dims = {rows, n}, row = {rows};
  const Handle x = b.input("x", DType::F32, dims);
  const Axis k = b.axis("k", n);
  const Handle m = b.map("m", DType::F32, row, [&](auto i) { return te::reduce(te::Combiner::Max, {k}, x(i[0], k)); });
  const Handle e = b.map("e", DType::F32, dims, [&](auto i) { return te::exp(x(i[0], i[1]) - m(i[0])); });
  const Handle s = b.map("s", DType::F32, row, [&](auto i) { return te::sum({k}, e(i[0], k)); });
  const Handle y = b.map("y", DType::F32, dims, [&](auto i) { return e(i[0], i[1]) / s(i[0]); });
  run(state, b.finish({y}), static_cast<double>(rows * n));
}

BENCHMARK(matmul)->Arg(128)->Arg(512)->Unit(benchmark::kMillisecond);
BENCHMARK(convolution)->Args({56, 64})->Args({14, 256})->Args({7, 512})->Unit(benchmark::kMillisecond);
BENCHMARK(max_pool)->Unit(benchmark::kMillisecond);
BENCHMARK(integer_matmul)->Unit(benchmark::kMillisecond);
BENCHMARK(elementwise)->Arg(100)->Arg(10000)->Unit(benchmark::kMillisecond);
BENCHMARK(softmax)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace isomer::interp
