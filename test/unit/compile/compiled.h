// A graph given as text, compiled and run beside the interpreter.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "codegen/codegen.h"
#include "compile/executable.h"
#include "interp/interp.h"
#include "ir/text.h"
#include "ops/table.h"
#include "tensor/random_fill.h"

namespace isomer {

// Its instructions multiply bytes by fours: dequantised numbers that meet in a product are multiplied as bytes there, and as
// floats where bytes are multiplied by pairs.
inline loop::Target target_with_byte_products() { return *loop::parse_target("x86-64-v4-vnni"); }

// Of two and more products in a row.
inline constexpr double kChainTolerance = 2e-5;

// Numbers as a constant of these dimensions, in the text of a graph.
inline std::string numbers(const std::vector<int>& dims) {
  int count = 1;
  for (const int d : dims) count *= d;
  std::string text = fmt::format("const f32[{}] [", fmt::join(dims, ","));
  for (int i = 0; i < count; ++i) text += fmt::format("{}{}", i ? "," : "", ((i * 37) % 101 - 50) / 64.0);
  return text + "]";
}

inline ir::Graph graph_of(const std::string& text) {
  auto g = ir::parse(text, ops::table());
  EXPECT_TRUE(g.ok()) << (g.ok() ? "" : g.error().to_string());
  return g.ok() ? *std::move(g) : ir::Graph();
}

inline std::vector<Tensor> random_inputs(const ir::Graph& g, uint64_t seed) {
  Random random(seed);
  std::vector<Tensor> out;
  for (const ir::Node& n : g.inputs()) {
    const DType type = n.types[0].dtype;
    FillRange range;
    if (type == DType::U8 || type == DType::I8) range.int_low = lowest_int(type), range.int_high = highest_int(type);
    out.push_back(random_tensor(type, n.types[0].shape.values(), random, range));
  }
  return out;
}

inline double value_at(const Tensor& t, int64_t i) {
  return is_float(t.dtype()) ? t.real(i) : static_cast<double>(t.integer(i));
}

// Compiled, with every buffer poisoned before and after its use, on one and on three threads: the interpreter's results
// up to rounding (in double, where `wide`; by `least` at any rate), and the same bytes whatever the number of threads.
inline void expect_compiles(const std::string& text, double tolerance = 1e-5, compile::ExecutableOptions options = {},
                            bool wide = true, double least = 0) {
  SCOPED_TRACE(text.substr(0, 400));
  const ir::Graph g = graph_of(text);
  if (g.outputs().empty()) return;
  auto target = codegen::host_target();
  ASSERT_TRUE(target.ok());
  if (options.lower.target.name.empty()) options.lower.target = *target;
  const std::vector<Tensor> inputs = random_inputs(g, 7);
  interp::Options exact;
  exact.wide = wide;
  const auto want = interp::run(g, ops::table(), inputs, exact);
  ASSERT_TRUE(want.ok()) << want.error().to_string();
  const auto made = compile::Executable::build(g, ops::table(), options);
  ASSERT_TRUE(made.ok()) << made.error().to_string();
  std::vector<Tensor> first;
  for (const int threads : {1, 3}) {
    auto runner = compile::Runner::make(*made, threads, ISO_POISON);
    ASSERT_TRUE(runner.ok()) << runner.error().to_string();
    const auto got = runner->run(inputs);
    ASSERT_TRUE(got.ok()) << got.error().to_string();
    for (size_t k = 0; k < got->size(); ++k) {
      const Tensor &a = (*want)[k], &b = (*got)[k];
      ASSERT_EQ(a.dims(), b.dims());
      double largest = 1e-30;
      for (int64_t i = 0; i < a.size(); ++i) largest = std::max(largest, std::abs(value_at(a, i)));
      for (int64_t i = 0; i < a.size(); ++i)
        ASSERT_LE(std::abs(value_at(a, i) - value_at(b, i)), std::max(least, tolerance * largest))
            << "output " << k << " at " << i << ": " << value_at(a, i) << " and " << value_at(b, i);
      EXPECT_TRUE(threads == 1 || first[k] == b) << "the number of threads shows in output " << k;
    }
    first = *got;
  }
}

}  // namespace isomer
