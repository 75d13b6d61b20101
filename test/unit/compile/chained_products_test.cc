// Two products with rows in between as one kernel: attention in the forms in which models write it, and what only looks like it.
#include "compile/chained_products.h"

#include <fmt/format.h>

#include "test/unit/compile/compiled.h"

namespace isomer {
namespace {

struct Shape {
  int64_t batch, heads, rows, columns, depth, width;
};

// `between` is what the scores %s become: %p.
std::string attention(const Shape& s, const std::string& between) {
  return fmt::format(
      "graph @g(%q: f32[{0},{2},{1},{4}], %k: f32[{0},{3},{1},{4}], %v: f32[{0},{3},{1},{5}], %m: f32[{0},1,1,{3}]) "
      "{{\n"
      "  %s = matmul(transpose(%q){{perm=[0,2,1,3]}}, transpose(%k){{perm=[0,2,3,1]}})\n{6}\n"
      "  return transpose(matmul(%p, transpose(%v){{perm=[0,2,1,3]}})){{perm=[0,2,1,3]}} }}",
      s.batch, s.heads, s.rows, s.columns, s.depth, s.width, between);
}

constexpr const char* kSoftmax = "  %p = softmax(add(mul(%s, const f32[] [0.125]), %m)){axis=-1}";

void expect_in_all_ways(const std::string& text) {
  expect_compiles(text, kChainTolerance);
  compile::ExecutableOptions strict;
  strict.lower.split = false;
  expect_compiles(text, kChainTolerance, strict);
}

TEST(ChainedProducts, AnySizes) {
  for (const Shape& s : {Shape{1, 4, 128, 128, 64, 64}, Shape{2, 3, 70, 70, 40, 24}, Shape{1, 2, 197, 197, 64, 64},
                         Shape{1, 3, 33, 100, 32, 48}, Shape{2, 1, 40, 65, 16, 33}, Shape{1, 1, 300, 40, 64, 64},
                         Shape{1, 2, 5, 64, 64, 64}, Shape{1, 8, 1, 50, 32, 32}})
    expect_in_all_ways(attention(s, kSoftmax));
}

TEST(ChainedProducts, OtherRows) {
  const Shape s{2, 2, 48, 80, 32, 32};
  expect_in_all_ways(attention(s, "  %p = softmax(%s){axis=-1}"));
  expect_in_all_ways(attention(s, "  %p = log_softmax(tanh(%s)){axis=-1}"));
  expect_in_all_ways(attention(s, "  %p = div(%s, add(reduce_sum(abs(%s), const i64[1] [3]), const f32[] [1]))"));
  expect_in_all_ways(attention(s, "  %p = softmax(add(%s, %m)){axis=2}"));  // along the other axis: columns are no rows
}

// Scores are whole numbers and no multiple of 0.7 lies half way between two: every rounding falls one way.
TEST(ChainedProducts, ScoresInBytes) {
  std::string text = attention({1, 2, 48, 80, 32, 32},
                               "  %b = quantize_linear(%s, const f32[] [0.7], const u8[] [128])\n"
                               "  %p = softmax(dequantize_linear(%b, const f32[] [0.7], const u8[] [128])){axis=-1}");
  for (const std::string name : {"%q", "%k"}) {
    const std::string use = "transpose(" + name + ")";
    text.replace(text.find(use), use.size(), "transpose(round(mul(" + name + ", const f32[] [3])))");
  }
  expect_in_all_ways(text);
}

// The second product of one chain would be the first of another.
TEST(ChainedProducts, ChainsDoNotShareAProduct) {
  for (const int64_t rows : {1, 3, 40}) {
    std::string inputs, layers;
    for (int k = 0; k < 4; ++k) {
      inputs += fmt::format(", %w{}: f32[96,96]", k);
      layers += fmt::format(
          "  %x{1} = matmul(gelu(layer_normalization(%x{0}, const f32[96] splat(1.5), const f32[96] splat(0.5))), "
          "%w{0})\n",
          k, k + 1);
    }
    expect_in_all_ways(fmt::format("graph @g(%x0: f32[1,{},96]{}) {{\n{}  return %x4\n}}", rows, inputs, layers));
  }
}

TEST(ChainedProducts, WhatOthersReadIsStored) {
  const std::string text = attention({1, 2, 40, 64, 32, 32}, kSoftmax);
  std::string both = text;
  both.replace(both.find("  return "), 9, "  return %p, ");
  expect_in_all_ways(both);
  std::string scores = text;
  scores.replace(scores.find("  return "), 9, "  return %s, ");
  expect_in_all_ways(scores);
}

TEST(ChainedProducts, ScoresAreNeverStored) {
  const ir::Graph g = graph_of(attention({1, 4, 512, 512, 64, 64}, kSoftmax));
  for (const bool split : {true, false}) {
    compile::LowerOptions options;
    options.target = *loop::parse_target("x86-64-v4-amx");
    options.split = split;
    const auto lowered = compile::lower(g, ops::table(), options);
    ASSERT_TRUE(lowered.ok());
    bool halves = false;
    for (const loop::Function& f : lowered->functions)
      for (const loop::Buffer& b : f.buffers) {
        EXPECT_TRUE(b.scope != loop::Scope::Argument || b.elements() < 4 * 512 * 512);
        halves = halves || b.dtype == DType::BF16;
      }
    EXPECT_EQ(halves, split);
    const auto& origin = lowered->plan.steps.back().origin;
    EXPECT_NE(std::find(origin.begin(), origin.end(), "p"), origin.end());
    EXPECT_NE(std::find(origin.begin(), origin.end(), "s"), origin.end());
  }
}

}  // namespace
}  // namespace isomer
