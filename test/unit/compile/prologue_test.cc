// Element-wise stages before a product are computed where its left side is brought together; where it is not, by a kernel
// of their own. Either way the kernels name the source nodes.
#include <fmt/format.h>

#include <algorithm>

#include "test/unit/compile/compiled.h"

namespace isomer {
namespace {

// A norm with its own numbers for each channel, and an activation.
std::string norm(int64_t channels, const std::string& x) {
  std::string numbers;
  for (int64_t i = 0; i < channels; ++i) numbers += fmt::format("{}{:.2f}", i ? "," : "", 0.5 + 0.01 * (i % 50));
  const std::string c = fmt::format("const f32[{}] [{}]", channels, numbers);
  return fmt::format("relu(batch_normalization({}, {}, {}, {}, {}){{}})", x, c, c, c, c);
}

std::string conv(int64_t outputs, int64_t channels, int64_t taps, const std::string& x, const char* attrs = "") {
  std::string numbers;
  for (int64_t i = 0; i < outputs * channels * taps * taps; ++i)
    numbers += fmt::format("{}{:.3f}", i ? "," : "", 0.001 * ((i * 7919) % 1999 - 999));
  return fmt::format("conv({}, const f32[{},{},{},{}] [{}]){{{}}}", x, outputs, channels, taps, taps, numbers, attrs);
}

std::string norm_then_conv(int64_t channels, int64_t side, int64_t outputs, int64_t taps, const char* attrs) {
  return fmt::format("graph @g(%x: f32[1,{0},{1},{1}]) {{ return relu({2}) }}", channels, side,
                     conv(outputs, channels, taps, norm(channels, "%x"), attrs));
}

TEST(Prologue, NormBeforeOneTap) {
  expect_compiles(norm_then_conv(48, 14, 64, 1, ""), kChainTolerance);
  expect_compiles(norm_then_conv(40, 9, 33, 1, "strides=[2,2]"), kChainTolerance);
  expect_compiles(norm_then_conv(5, 6, 7, 1, "pads=[1,0,0,2]"), kChainTolerance);  // the padding is no part of the norm
}

TEST(Prologue, NormBeforeWindows) {
  expect_compiles(norm_then_conv(40, 15, 64, 5, "pads=[2,2,2,2]"), kChainTolerance);
  expect_compiles(norm_then_conv(24, 16, 40, 5, "strides=[2,2], pads=[1,2,2,1]"), kChainTolerance);
  expect_compiles(norm_then_conv(32, 12, 32, 3, "pads=[1,1,1,1]"), kChainTolerance);
  expect_compiles(norm_then_conv(12, 12, 32, 3, "dilations=[2,2], pads=[2,2,2,2]"), kChainTolerance);
}

TEST(Prologue, GateAndMatrixProduct) {
  expect_compiles(
      "graph @g(%x: f32[1,64,10,10], %g: f32[1,64,1,1]) { return " + conv(48, 64, 1, "mul(%x, sigmoid(%g))") + " }",
      kChainTolerance);
  expect_compiles(
      "graph @g(%x: f32[3,40,64], %s: f32[3,40,64], %w: f32[64,50]) { return matmul(tanh(add(%x, %s)), %w) }",
      kChainTolerance);
  expect_compiles("graph @g(%x: f32[2,64], %w: f32[64,50]) { return matmul(relu(%x), %w) }", kChainTolerance);
  expect_compiles("graph @g(%x: f32[3,40,64], %y: f32[3,64,30]) { return matmul(relu(%x), neg(%y)) }", kChainTolerance);
}

TEST(Prologue, WhatOthersReadIsComputedOnce) {
  expect_compiles("graph @g(%x: f32[1,32,8,8]) { %y = relu(%x) return " + conv(32, 32, 1, "%y") + ", " +
                      conv(16, 32, 1, "%y") + ", %y }",
                  kChainTolerance);
}

TEST(Prologue, KernelsNameTheirNodes) {
  const ir::Graph g = graph_of(norm_then_conv(48, 14, 64, 1, ""));
  compile::LowerOptions options;
  options.target = *loop::parse_target("x86-64-v4");
  const auto lowered = compile::lower(g, ops::table(), options);
  ASSERT_TRUE(lowered.ok());
  ASSERT_EQ(lowered->plan.steps.size(), 1U);
  EXPECT_GE(lowered->plan.steps[0].origin.size(), 4U);  // norm, activation, convolution, activation
}

}  // namespace
}  // namespace isomer
