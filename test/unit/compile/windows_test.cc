// Reductions over windows by register tiles: depthwise and grouped convolutions and pools, with every kind of border.
#include <fmt/format.h>

#include "test/unit/compile/compiled.h"

namespace isomer {
namespace {

std::string dims_text(const std::vector<int>& dims) { return fmt::format("{}", fmt::join(dims, ",")); }

// A constant whose elements all differ from their neighbours.
// The layer between two 1x1 convolutions, so that channels lie together: `input` are its dims, `taps` those of its weights.
std::string window_layer(const std::vector<int>& input, const std::vector<int>& taps, const std::string& attributes,
                         const std::string& after = "relu(%b)") {
  const size_t rank = input.size() - 2;
  const std::vector<int> ones(rank, 1);
  std::vector<int> first = {input[1], 3}, last = {2, taps[0]};
  for (auto* w : {&first, &last}) w->insert(w->end(), ones.begin(), ones.end());
  std::vector<int> x = input;
  x[1] = 3;
  return "graph @g(%x: f32[" + dims_text(x) + "]) { %a = conv(%x, " + numbers(first) + ") %b = conv(%a, " +
         numbers(taps) + ", " + numbers({taps[0]}) + "){" + attributes + "} %c = " + after + " return conv(%c, " +
         numbers(last) + ") }";
}

TEST(Windows, DepthwiseWithEveryBorderStrideAndDilation) {
  for (const char* a :
       {"pads=[1,1,1,1]", "pads=[0,2,1,0]", "strides=[2,2], pads=[1,1,1,1]", "strides=[1,2], dilations=[2,1]",
        "dilations=[3,3], pads=[3,3,3,3]", "pads=[2,2,2,2], strides=[3,2]"})
    for (const int size : {7, 19})
      expect_compiles(window_layer({1, 20, 8, size}, {20, 1, 3, 3}, std::string("group=20, ") + a));
  expect_compiles(window_layer({2, 16, 9, 10}, {16, 1, 5, 5}, "group=16, pads=[2,2,2,2]",
                               "clip(%b, const f32[] 0, const f32[] 6)"));
  expect_compiles(window_layer({1, 16, 12, 31}, {16, 1, 7, 7}, "group=16, pads=[3,3,3,3]", "mul(%b, sigmoid(%b))"));
  expect_compiles(
      window_layer({1, 16, 5, 40}, {16, 1, 1, 17}, "group=16, pads=[0,8,0,8]"));  // too many taps to write out
}

// Small images are cut into bands of lines, and these by channels.
TEST(Windows, BandsOfUnevenHeight) {
  for (const int lines : {7, 15, 30, 61})
    expect_compiles(window_layer({1, 40, lines, 9}, {40, 1, 3, 3}, "group=40, pads=[1,1,1,1]"));
  expect_compiles(window_layer({3, 52, 9, 10}, {52, 1, 5, 5}, "group=52, strides=[2,2], pads=[2,2,2,2]"));
}

// The products around it must not take its lines apart into tasks that know their own rows alone.
TEST(Windows, DepthwiseBetweenWideProducts) {
  expect_compiles(window_layer({1, 32, 40, 48}, {32, 1, 3, 3}, "group=32, pads=[1,1,1,1]"));
}

TEST(Windows, DepthwiseOfOtherRanks) {
  expect_compiles(window_layer({2, 17, 23}, {17, 1, 3}, "group=17, pads=[1,1]"));
  expect_compiles(window_layer({1, 18, 4, 5, 9}, {18, 1, 3, 3, 3}, "group=18, pads=[1,1,1,1,1,1]"));
}

TEST(Windows, GroupsOfEveryWidth) {
  struct Case {
    int in, out, groups;
  };
  for (const Case c : {Case{8, 8, 4}, Case{16, 16, 4}, Case{64, 64, 16}, Case{32, 32, 4}, Case{64, 64, 4},
                       Case{64, 64, 2}, Case{16, 32, 4}, Case{32, 16, 4}, Case{24, 24, 6}, Case{18, 36, 6},
                       Case{20, 20, 4}, Case{12, 24, 12}, Case{40, 40, 2}, Case{48, 48, 6}, Case{80, 80, 10}})
    expect_compiles(
        window_layer({1, c.in, 6, 11}, {c.out, c.in / c.groups, 3, 3},
                     fmt::format("group={}, strides=[1,{}], pads=[1,1,1,1]", c.groups, 1 + c.groups % 4 / 2)));
}

TEST(Windows, ValuesBeyondTheSecondCache) {
  expect_compiles(window_layer({1, 104, 40, 40}, {104, 1, 3, 3}, "group=104, pads=[1,1,1,1]"));
}

TEST(Windows, ResidualsAndTwoReaders) {
  expect_compiles(window_layer({1, 16, 9, 9}, {16, 1, 3, 3}, "group=16, pads=[1,1,1,1]", "relu(add(%b, %a))"));
  expect_compiles(window_layer({1, 16, 9, 9}, {16, 1, 3, 3}, "group=16, pads=[1,1,1,1]", "add(relu(%b), neg(%b))"));
}

TEST(Windows, OneOperationBeforeIsDoneOnWhatIsLoaded) {
  const auto two = [](const std::string& op) {
    return "graph @g(%x: f32[1,3,13,14]) { %a = conv(%x, " + numbers({16, 3, 1, 1}) + ") %r = " + op +
           "(%a) %b = conv(%r, " + numbers({16, 1, 3, 3}) +
           "){group=16, pads=[1,1,1,1]} %c = max_pool(%r){kernel_shape=[3,3], pads=[1,1,1,1]} "
           "return conv(add(add(%b, %c), %a), " +
           numbers({2, 16, 1, 1}) + ") }";
  };
  expect_compiles(two("relu"));
  expect_compiles(two("neg"));
}

TEST(Windows, TotalsAreAddedUpOnTheWay) {
  const auto gated = [](const std::vector<int>& x, const std::string& total) {
    return "graph @g(%x: f32[" + dims_text(x) + "]) { %a = conv(%x, " + numbers({x[1] * 12, x[1], 1, 1}) +
           ") %b = conv(%a, " + numbers({x[1] * 12, 1, 3, 3}) + ", " + numbers({x[1] * 12}) +
           fmt::format("){{group={}, pads=[1,1,1,1]}}", x[1] * 12) + " %c = mul(%b, sigmoid(%b)) %t = " + total +
           " return conv(mul(%c, sigmoid(%t)), " + numbers({2, x[1] * 12, 1, 1}) + ") }";
  };
  const std::string mean = "global_average_pool(%c)";
  for (const std::vector<int>& x :
       {std::vector<int>{1, 3, 9, 21}, {1, 2, 6, 5}, {2, 2, 7, 9}, {1, 8, 64, 64}, {1, 2, 1, 30}})
    expect_compiles(gated(x, mean), 1e-4);
  expect_compiles(gated({1, 2, 6, 5}, "reduce_max(%c, [2,3])"));
  expect_compiles(gated({1, 2, 6, 5}, "reduce_sum(%c, [1])"), 1e-4);
  expect_compiles(gated({1, 2, 6, 5}, "reduce_sum(%c, [1,3])"), 1e-4);
  expect_compiles(gated({1, 2, 6, 5}, "reduce_sum(mul(%c, %c), [2,3])"), 1e-4);
}

TEST(Windows, Pools) {
  const auto pool = [](const std::string& op) {
    return "graph @g(%x: f32[1,3,13,14]) { %a = conv(%x, " + numbers({20, 3, 1, 1}) + ") %b = " + op +
           " return conv(%b, " + numbers({2, 20, 1, 1}) + ") }";
  };
  expect_compiles(pool("max_pool(%a){kernel_shape=[3,3], strides=[2,2], pads=[1,1,1,1]}"));
  expect_compiles(pool("max_pool(%a){kernel_shape=[2,2], strides=[2,2]}"));
  expect_compiles(pool("max_pool(%a){kernel_shape=[3,3], strides=[2,2], ceil_mode=1}"));
  expect_compiles(pool("average_pool(%a){kernel_shape=[3,3], pads=[1,1,1,1]}"));
  expect_compiles(pool("average_pool(%a){kernel_shape=[3,3], pads=[1,1,1,1], count_include_pad=1}"));
  expect_compiles(pool("average_pool(%a){kernel_shape=[5,5], strides=[3,3]}"));
}

}  // namespace
}  // namespace isomer
