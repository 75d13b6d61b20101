// Reductions over windows between row-major values: a model of one layer, with every kind of border.
#include <fmt/format.h>

#include "test/unit/compile/compiled.h"

namespace isomer {
namespace {

std::string numbers(const std::vector<int>& dims) {
  int count = 1;
  for (const int d : dims) count *= d;
  std::string text = fmt::format("const f32[{}] [", fmt::join(dims, ","));
  for (int i = 0; i < count; ++i) text += fmt::format("{}{}", i ? "," : "", ((i * 37) % 101 - 50) / 64.0);
  return text + "]";
}

std::string layer(const std::vector<int>& input, const std::vector<int>& taps, const std::string& attributes,
                  const std::string& after = "%y") {
  return fmt::format("graph @g(%x: f32[{}]) {{ %y = conv(%x, {}, {}){{{}}} return {} }}", fmt::join(input, ","),
                     numbers(taps), numbers({taps[0]}), attributes, after);
}

TEST(Planes, DepthwiseWithEveryBorderStrideAndDilation) {
  for (const char* a :
       {"pads=[1,1,1,1]", "pads=[0,2,1,0]", "strides=[2,2], pads=[1,1,1,1]", "strides=[1,2], dilations=[2,1]",
        "dilations=[3,3], pads=[3,3,3,3]", "pads=[2,2,2,2], strides=[3,2]", "strides=[2,3]"})
    for (const int size : {7, 19, 33})
      expect_compiles(layer({1, 5, 9, size}, {5, 1, 3, 3}, std::string("group=5, ") + a));
  expect_compiles(layer({2, 3, 9, 10}, {3, 1, 5, 5}, "group=3, pads=[2,2,2,2]", "mul(%y, sigmoid(%y))"));
  expect_compiles(layer({1, 2, 20, 31}, {2, 1, 9, 9}, "group=2, pads=[4,4,4,4]"));  // too many taps to write out
  expect_compiles(layer({1, 3, 30, 4}, {3, 1, 7, 1}, "group=3, pads=[3,0,3,0]"));
  expect_compiles(layer({1, 3, 3, 3}, {3, 1, 3, 3}, "group=3, pads=[9,9,9,9]"));  // lines that are border only
}

TEST(Planes, GroupsAndWhatFollows) {
  expect_compiles(layer({1, 8, 10, 17}, {8, 2, 3, 3}, "group=4, pads=[1,1,1,1]", "relu(%y)"));
  expect_compiles(layer({2, 6, 10, 17}, {9, 2, 3, 3}, "group=3, pads=[1,1,1,1], strides=[1,2]"));
  expect_compiles(layer({1, 4, 9, 18}, {8, 1, 3, 3}, "group=4, pads=[1,1,1,1]"));
  expect_compiles(layer({1, 4, 9, 18}, {4, 1, 3, 3}, "group=4, pads=[1,1,1,1]", "relu(add(%y, %x))"));
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

TEST(Planes, Pools) {
  for (const char* op : {"max_pool(%x){kernel_shape=[3,3], strides=[2,2], pads=[1,1,1,1]}",
                         "max_pool(%x){kernel_shape=[3,3], strides=[2,2], ceil_mode=1}",
                         "average_pool(%x){kernel_shape=[3,3], pads=[1,1,1,1]}",
                         "average_pool(%x){kernel_shape=[3,3], pads=[1,1,1,1], count_include_pad=1}"})
    expect_compiles(fmt::format("graph @g(%x: f32[1,5,13,34]) {{ return {} }}", op));
}

}  // namespace
}  // namespace isomer
