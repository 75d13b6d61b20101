// Transposed convolutions as one sum for each phase of their strides, and constants that are seen through.
#include <fmt/format.h>

#include "compile/group.h"
#include "compile/stages.h"
#include "test/unit/compile/compiled.h"

namespace isomer {
namespace {

// A transposed convolution with a bias and an activation, behind a 1x1 convolution.
std::string transposed_layer(const std::vector<int>& input, const std::vector<int>& taps, const std::string& attributes,
                             const std::string& after = "relu(%b)", int groups = 1) {
  std::vector<int> first = {input[1], input[1]};
  first.insert(first.end(), input.size() - 2, 1);
  return fmt::format("graph @g(%x: f32[{}]) {{ %a = conv(%x, {}) %b = conv_transpose(%a, {}, {}){{{}}} return {} }}",
                     fmt::join(input, ","), numbers(first), numbers(taps), numbers({taps[1] * groups}), attributes,
                     after);
}

TEST(Phases, EveryStrideKernelAndBorder) {
  for (const char* a : {"strides=[2,2]", "strides=[2,2], pads=[1,1,1,1]", "strides=[2,3], pads=[1,0,0,1]",
                        "strides=[2,2], pads=[1,1,1,1], output_padding=[1,1]", "strides=[3,1]",
                        "strides=[2,2], dilations=[2,3]", "strides=[4,4]", "strides=[5,5]", ""})
    for (const int k : {1, 2, 3, 4}) expect_compiles(transposed_layer({1, 8, 5, 6}, {8, 12, k, k}, a));
}

// Tiles of a row-major result are stored along its lines, over the end of one, where its planes are far apart.
TEST(Phases, PlanesThatAreFarApart) {
  for (const int outputs : {5, 12, 35})
    for (const int k : {1, 2, 3})
      expect_compiles(
          transposed_layer({1, 8, 9, 19}, {8, outputs, k, k}, fmt::format("strides=[{0},{0}]", k == 3 ? 4 : 2), "%b"));
  expect_compiles(transposed_layer({2, 8, 11, 16}, {8, 12, 2, 2}, "strides=[2,2]"));
}

TEST(Phases, OtherRanksAndGroups) {
  expect_compiles(transposed_layer({2, 16, 20}, {16, 8, 16}, "strides=[8], pads=[4,4]", "leaky_relu(%b)"));
  expect_compiles(transposed_layer({1, 6, 3, 4, 5}, {6, 9, 2, 2, 2}, "strides=[2,2,2]"));
  expect_compiles(
      transposed_layer({1, 16, 5, 6}, {16, 1, 4, 4}, "strides=[2,2], pads=[1,1,1,1], group=16", "relu(%b)", 16));
  expect_compiles(transposed_layer({1, 16, 5, 6}, {16, 8, 3, 3}, "strides=[2,2], group=2", "relu(%b)", 2));
}

TEST(Phases, WhateverFollows) {
  const std::vector<int> in = {1, 8, 4, 5}, taps = {8, 4, 2, 2};
  for (const char* after :
       {"%b", "reshape(%b, const i64[2] [4,80])", "concat(%b, relu(%b)){axis=1}",
        "add(%b, transpose(%b){perm=[0,1,2,3]})", "softmax(%b){axis=1}", "reduce_mean(tanh(%b), const i64[2] [2,3])",
        "conv(tanh(%b), const f32[1,4,1,1] [1,2,3,4])"})
    expect_compiles(transposed_layer(in, taps, "strides=[2,2]", after));
  // A part of a concatenation, which lies in it.
  expect_compiles("graph @g(%x: f32[1,8,4,5], %y: f32[1,3,8,10]) { %t = conv_transpose(%x, " + numbers({8, 4, 2, 2}) +
                  "){strides=[2,2]} %c = concat(conv(%y, " + numbers({3, 3, 1, 1}) +
                  "), relu(%t)){axis=1} return conv(%c, " + numbers({2, 7, 3, 3}) + ") }");
}

// Phases are written side by side into what they make together, which has no places when there are no channels.
TEST(Phases, OfNoChannels) {
  expect_compiles(
      "graph @g(%x: f32[1,1,3], %w: f32[1,1,3]) { %v = slice(%w, const i64[1] [1], const i64[1] [1], const i64[1] [1]) "
      "return conv_transpose(%x, %v){output_shape=[8], strides=[3]} }");
}

TEST(Phases, EachIsAContraction) {
  const ir::Graph g = graph_of(transposed_layer({1, 8, 5, 6}, {8, 12, 4, 4}, "strides=[2,2], pads=[1,1,1,1]"));
  auto stages = compile::stages_of(g, ops::table());
  ASSERT_TRUE(stages.ok());
  compile::split_phases(*stages);
  compile::inline_stages(*stages);
  int contractions = 0, running = 0;
  for (const compile::ModelStage& s : stages->stages) {
    running += s.runs() && s.is_reduction();
    contractions += compile::contraction(s, stages->values).has_value();
  }
  EXPECT_EQ(running, 5);
  EXPECT_EQ(contractions, 5);
}

TEST(Phases, TapsInThePaddingAreLeftOut) {
  const std::string wide = "graph @g(%x: f32[1,16,5,6]) { return relu(conv(%x, " + numbers({16, 16, 3, 3}) +
                           "){dilations=[7,9], pads=[7,9,7,9]}), conv(%x, " + numbers({16, 16, 3, 3}) +
                           "){dilations=[4,6], pads=[4,6,4,6]}, max_pool(%x){kernel_shape=[3,3], dilations=[3,2], "
                           "pads=[2,2,2,2]}, conv(%x, " +
                           numbers({16, 1, 3, 3}) + "){group=16, dilations=[8,8], pads=[8,8,8,8]} }";
  auto stages = compile::stages_of(graph_of(wide), ops::table());
  ASSERT_TRUE(stages.ok());
  compile::split_phases(*stages);
  std::vector<int64_t> taps;
  for (const compile::ModelStage& s : stages->stages)
    if (compile::contraction(s, stages->values)) {
      taps.push_back(1);
      for (const te::Axis& a : s.body->axes) taps.back() *= a.extent.value();
    }
  EXPECT_EQ(taps, (std::vector<int64_t>{16, 16 * 3, 1}));
  expect_compiles(wide);
}

TEST(Constants, PiecesOfWeightsAreWeights) {
  // The products of a recurrent layer read their part of the weights where it lies: nothing is copied when it runs.
  const ir::Graph g = graph_of("graph @g(%x: f32[3,1,16]) { return lstm(%x, " + numbers({1, 64, 16}) + ", " +
                               numbers({1, 64, 16}) + ", " + numbers({1, 128}) + ") }");
  auto stages = compile::stages_of(g, ops::table());
  ASSERT_TRUE(stages.ok());
  compile::inline_stages(*stages);
  int products = 0;
  for (const compile::ModelStage& s : stages->stages)
    if (const auto c = compile::contraction(s, stages->values)) {
      ++products;
      EXPECT_TRUE(stages->values[static_cast<size_t>(c->b->tensor)].constant) << s.value;
    }
  EXPECT_GE(products, 3);
  expect_compiles("graph @g(%x: f32[3,2,8]) { return lstm(%x, " + numbers({2, 32, 8}) + ", " + numbers({2, 32, 8}) +
                  ", " + numbers({2, 64}) + "){direction=\"bidirectional\"} }");
}

}  // namespace
}  // namespace isomer
