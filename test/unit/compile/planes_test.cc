// Reductions over windows between row-major values: a model of one layer, with every kind of border.
#include <fmt/format.h>

#include "test/unit/compile/compiled.h"

namespace isomer {
namespace {

std::string plane_layer(const std::vector<int>& input, const std::vector<int>& taps, const std::string& attributes,
                        const std::string& after = "%y") {
  return fmt::format("graph @g(%x: f32[{}]) {{ %y = conv(%x, {}, {}){{{}}} return {} }}", fmt::join(input, ","),
                     numbers(taps), numbers({taps[0]}), attributes, after);
}

TEST(Planes, DepthwiseWithEveryBorderStrideAndDilation) {
  for (const char* a :
       {"pads=[1,1,1,1]", "pads=[0,2,1,0]", "strides=[2,2], pads=[1,1,1,1]", "strides=[1,2], dilations=[2,1]",
        "dilations=[3,3], pads=[3,3,3,3]", "pads=[2,2,2,2], strides=[3,2]", "strides=[2,3]"})
    for (const int size : {7, 19, 33})
      expect_compiles(plane_layer({1, 5, 9, size}, {5, 1, 3, 3}, std::string("group=5, ") + a));
  expect_compiles(plane_layer({2, 3, 9, 10}, {3, 1, 5, 5}, "group=3, pads=[2,2,2,2]", "mul(%y, sigmoid(%y))"));
  expect_compiles(plane_layer({1, 2, 20, 31}, {2, 1, 9, 9}, "group=2, pads=[4,4,4,4]"));  // too many taps to write out
  expect_compiles(plane_layer({1, 3, 30, 4}, {3, 1, 7, 1}, "group=3, pads=[3,0,3,0]"));
  expect_compiles(plane_layer({1, 3, 3, 3}, {3, 1, 3, 3}, "group=3, pads=[9,9,9,9]"));  // lines that are border only
}

TEST(Planes, GroupsAndWhatFollows) {
  expect_compiles(plane_layer({1, 8, 10, 17}, {8, 2, 3, 3}, "group=4, pads=[1,1,1,1]", "relu(%y)"));
  expect_compiles(plane_layer({2, 6, 10, 17}, {9, 2, 3, 3}, "group=3, pads=[1,1,1,1], strides=[1,2]"));
  expect_compiles(plane_layer({1, 4, 9, 18}, {8, 1, 3, 3}, "group=4, pads=[1,1,1,1]"));
  expect_compiles(plane_layer({1, 4, 9, 18}, {4, 1, 3, 3}, "group=4, pads=[1,1,1,1]", "relu(add(%y, %x))"));
}

TEST(Planes, WhatIsMadeOfOneReadIsMadeOnce) {
  const std::string taps = numbers({4, 1, 3, 3});
  for (const char* op : {"relu", "neg", "exp"})
    expect_compiles(
        fmt::format("graph @g(%x: f32[1,4,9,18]) {{ %r = {}(%x) return conv(%r, {}){{group=4, "
                    "pads=[1,1,1,1]}} }}",
                    op, taps));
  expect_compiles(
      "graph @g(%x: f32[1,4,9,18]) { %r = neg(%x) return max_pool(%r){kernel_shape=[3,3], pads=[1,1,1,1]} }");
}

// The channels of one axis' windows are no lines of a plane: each has taps of its own.
TEST(Planes, WindowsAlongOneAxis) {
  expect_compiles("graph @g(%x: f32[2,4,4], %b: f32[4]) { return conv(%x, " + numbers({4, 1, 2}) +
                  ", %b){group=4, pads=[1,0], strides=[2]} }");
}

// Few outputs that all read all planes, as they lie in a row-major input and behind a layer that has channels together.
TEST(Planes, ConvolutionsWithFewOutputs) {
  const std::pair<const char*, int> layers[] = {{"pads=[1,1,1,1]", 7},
                                                {"pads=[0,2,1,0]", 1},
                                                {"strides=[2,2], pads=[1,1,1,1]", 3},
                                                {"dilations=[2,1], pads=[2,1,2,1]", 12},
                                                {"strides=[1,3], pads=[20,0,2,9]", 5}};
  for (const auto& [a, outputs] : layers) {
    expect_compiles(plane_layer({2, 3, 37, 40}, {outputs, 3, 3, 3}, a, "tanh(%y)"));
    expect_compiles(
        fmt::format("graph @g(%x: f32[1,20,41,33]) {{ %a = relu(conv(%x, {})) return conv(%a, {}, {}){{{}}} }}",
                    numbers({24, 20, 1, 1}), numbers({outputs, 24, 3, 3}), numbers({outputs}), a));
  }
  expect_compiles(plane_layer({1, 4, 60, 50}, {3, 4, 9, 9}, "pads=[4,4,4,4]"));
  expect_compiles(plane_layer({1, 16, 9, 9}, {4, 16, 5, 5}, "pads=[2,2,2,2]", "relu(add(%y, %y))"));
  expect_compiles(
      plane_layer({1, 300, 16, 64}, {2, 300, 3, 3}, "pads=[1,1,1,1]"));  // planes that do not fit in the cache
  for (const char* a :
       {"strides=[2,2], pads=[1,1,1,1]", "strides=[3,3], pads=[4,4,4,4], output_padding=[2,2]", "strides=[1,2]"})
    for (const int outputs : {1, 3})
      expect_compiles(fmt::format("graph @g(%x: f32[1,6,20,24]) {{ return tanh(conv_transpose(%x, {}){{{}}}) }}",
                                  numbers({6, outputs, 5, 5}), a));
  // What follows wants channels together again.
  expect_compiles(
      fmt::format("graph @g(%x: f32[1,3,24,24]) {{ %a = relu(conv(%x, {}){{pads=[1,1,1,1]}}) %b = "
                  "max_pool(%a){{kernel_shape=[2,2], "
                  "strides=[2,2]}} return conv(%b, {}){{pads=[1,1,1,1]}} }}",
                  numbers({10, 3, 3, 3}), numbers({16, 10, 3, 3})));
}

TEST(Planes, Pools) {
  for (const char* op : {"max_pool(%x){kernel_shape=[3,3], strides=[2,2], pads=[1,1,1,1]}",
                         "max_pool(%x){kernel_shape=[3,3], strides=[2,2], ceil_mode=1}",
                         "average_pool(%x){kernel_shape=[3,3], pads=[1,1,1,1]}",
                         "average_pool(%x){kernel_shape=[3,3], pads=[1,1,1,1], count_include_pad=1}"})
    expect_compiles(fmt::format("graph @g(%x: f32[1,5,13,34]) {{ return {} }}", op));
  // Zeros to the left, which every second place leaves out: the read stays inside, what is made of it asks for its place.
  expect_compiles(
      "graph @g(%x: f32[1,1,5,5]) { %p = pad(%x, [0,0,0,2,0,0,0,0]) return average_pool(%p){kernel_shape=[2,1], "
      "pads=[1,0,0,0], strides=[2,2]} }");
}

}  // namespace
}  // namespace isomer
