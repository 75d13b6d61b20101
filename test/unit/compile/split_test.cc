// Products of floats in two parts: rows that are gathered, staged or windows of an image, and every tail. On a machine
// without tile registers the same graphs are exact products.
#include <fmt/format.h>

#include <algorithm>

#include "base/random.h"
#include "loop/print.h"
#include "test/unit/compile/compiled.h"

namespace isomer {
namespace {

std::string constant(const std::string& dims, int64_t elements, uint64_t seed = 3) {
  Random random(seed);
  std::string text = "const f32[" + dims + "] [";
  for (int64_t i = 0; i < elements; ++i)
    text += fmt::format("{}{:.4f}", i ? "," : "", static_cast<double>(random.between(-10000, 10000)) * 1e-4);
  return text + "]";
}

struct Conv {
  int64_t images, channels, height, width, outputs, taps;
  const char* attrs;
};

std::string text(const Conv& c) {
  const std::string taps = constant(fmt::format("{},{},{},{}", c.outputs, c.channels, c.taps, c.taps),
                                    c.outputs * c.channels * c.taps * c.taps);
  return fmt::format("graph @g(%x: f32[{},{},{},{}], %b: f32[{}]) {{ return relu(conv(%x, {}, %b){{{}}}) }}", c.images,
                     c.channels, c.height, c.width, c.outputs, taps, c.attrs);
}

std::string product(int64_t m, int64_t k, int64_t n) {
  return fmt::format("graph @g(%x: f32[{0},{1}]) {{ return relu(matmul(%x, {2})) }}", m, k,
                     constant(fmt::format("{},{}", k, n), k * n));
}

// For the host, had it a second cache of so many bytes.
compile::ExecutableOptions with_cache(int64_t bytes) {
  auto target = codegen::host_target();
  EXPECT_TRUE(target.ok());
  compile::ExecutableOptions options;
  if (target.ok()) options.lower.target = *target;
  options.lower.target.l2_bytes = bytes;
  return options;
}

TEST(Split, MatrixProducts) {
  for (const auto& [m, k, n] : std::vector<std::array<int64_t, 3>>{
           {64, 128, 96}, {197, 64, 70}, {49, 300, 130}, {9, 512, 256}, {300, 33, 65}, {33, 1000, 48}})
    expect_compiles(fmt::format("graph @g(%x: f32[{0},{1}], %r: f32[{0},{2}]) {{ return add(matmul(%x, {3}), %r) }}", m,
                                k, n, constant(fmt::format("{},{}", k, n), k * n)),
                    kChainTolerance);
}

TEST(Split, BatchesAndTransposedOperands) {
  expect_compiles("graph @g(%x: f32[3,40,64]) { return matmul(%x, " + constant("3,64,80", 3 * 64 * 80) + ") }",
                  kChainTolerance);
  expect_compiles("graph @g(%x: f32[96,80], %c: f32[64]) { return gemm(%x, " + constant("64,96", 64 * 96) +
                      ", %c){transA=1, transB=1} }",
                  kChainTolerance);
}

TEST(Split, WindowsThatRunThrough) {
  for (const Conv& c : {Conv{1, 32, 29, 31, 48, 5, "pads=[2,2,2,2]"}, Conv{2, 48, 14, 14, 64, 5, "pads=[2,2,2,2]"},
                        Conv{3, 24, 17, 17, 33, 5, ""}, Conv{1, 32, 8, 40, 64, 5, "pads=[7,7,7,7]"},
                        Conv{1, 40, 30, 30, 40, 3, "dilations=[2,1], pads=[2,1,2,1]"}})
    expect_compiles(text(c), kChainTolerance);
}

TEST(Split, WindowsStepsApart) {
  for (const Conv& c :
       {Conv{1, 3, 64, 64, 64, 7, "strides=[2,2], pads=[3,3,3,3]"},
        Conv{2, 3, 65, 63, 64, 5, "strides=[1,2], pads=[0,0,1,1]"},
        Conv{1, 64, 28, 28, 64, 3, "strides=[2,2], pads=[1,1,1,1]"},
        Conv{2, 24, 30, 31, 40, 5, "strides=[2,3], pads=[2,1,0,3]"}, Conv{1, 64, 33, 9, 40, 3, "strides=[4,1]"}})
    expect_compiles(text(c), kChainTolerance);
}

TEST(Split, WindowsOfAPartOfTheChannels) {
  expect_compiles("graph @g(%x: f32[2,70,14,15]) { %p, %q, %r = split(relu(%x), const i64[3] [9,40,21]){axis=1} " +
                      std::string("return relu(conv(%q, ") + constant("48,40,5,5", 48 * 40 * 25) +
                      "){pads=[2,2,2,2]}), mul(%p, %p), %r }",
                  kChainTolerance);
}

// Groups of channels as they follow a pointwise convolution, and right behind an input: of one column of registers and of several, runs
// that are filled up, several images, windows steps apart and tiles that hang over.
struct Grouped {
  int64_t images, groups, channels, outputs, height, width, taps;
  const char* attrs;
};

std::string text(const Grouped& c, bool first) {
  const int64_t in = c.groups * c.channels, out = c.groups * c.outputs;
  return fmt::format(
      "graph @g(%x: f32[{},{},{},{}], %b: f32[{}]) {{ %y = {} return relu(conv(%y, {}, %b){{group={}, {}}}) }}",
      c.images, in, c.height, c.width, out,
      first ? "%x" : "relu(conv(%x, " + constant(fmt::format("{0},{0},1,1", in), in * in) + "))",
      constant(fmt::format("{},{},{},{}", out, c.channels, c.taps, c.taps), out * c.channels * c.taps * c.taps, 5),
      c.groups, c.attrs);
}

TEST(Split, WindowsOfGroups) {
  const Grouped cases[] = {{1, 8, 16, 16, 28, 28, 3, "pads=[1,1,1,1]"}, {2, 3, 16, 16, 15, 13, 3, "pads=[1,1,1,1]"},
                           {1, 4, 32, 32, 14, 14, 3, "pads=[1,1,1,1]"}, {1, 3, 24, 40, 17, 19, 3, "pads=[1,0,2,1]"},
                           {2, 5, 16, 13, 30, 29, 3, "strides=[2,2]"},  {1, 2, 48, 33, 21, 20, 5, "pads=[2,2,2,2]"},
                           {1, 4, 20, 16, 40, 9, 3, "dilations=[2,1]"}, {1, 32, 32, 32, 7, 7, 3, "pads=[1,1,1,1]"}};
  for (const Grouped& c : cases)
    for (const bool first : {true, false}) expect_compiles(text(c, first), kChainTolerance);
  compile::LowerOptions options;
  options.target = *loop::parse_target("x86-64-v4-amx");
  const auto uses = [&](const Grouped& c, const std::string& tile) {
    const auto lowered = compile::lower(graph_of(text(c, false)), ops::table(), options);
    EXPECT_TRUE(lowered.ok());
    return lowered.ok() && std::any_of(lowered->functions.begin(), lowered->functions.end(),
                                       [&](const auto& f) { return loop::print(f).find(tile) != std::string::npos; });
  };
  EXPECT_TRUE(uses(cases[0], "split_64x16"));
  EXPECT_TRUE(uses({1, 32, 32, 32, 7, 7, 3, "pads=[1,1,1,1]"}, "split_32x32"));
  EXPECT_FALSE(uses({1, 16, 8, 8, 28, 28, 3, "pads=[1,1,1,1]"}, "split_64x16"));  // it would be half empty
}

TEST(Split, WindowsThatAreGathered) {
  expect_compiles(text({1, 32, 30, 30, 40, 3, "dilations=[2,2], pads=[2,2,2,2]"}), kChainTolerance);
  expect_compiles(text({2, 64, 9, 9, 96, 1, "strides=[2,2]"}), kChainTolerance);
}

TEST(Split, ComputedRightSides) {
  for (const auto& [m, k, n] : std::vector<std::array<int64_t, 3>>{
           {64, 128, 96}, {197, 65, 70}, {49, 300, 130}, {300, 33, 65}, {128, 256, 1024}}) {
    expect_compiles(
        fmt::format("graph @g(%x: f32[2,{0},{1}], %y: f32[2,{1},{2}]) {{ return matmul(%x, %y) }}", m, k, n),
        kChainTolerance);
    expect_compiles(fmt::format("graph @g(%x: f32[2,{0},{1}], %y: f32[2,{2},{1}]) {{ return matmul(%x, "
                                "transpose(%y){{perm=[0,2,1]}}) }}",
                                m, k, n),
                    kChainTolerance);
  }
}

TEST(Split, OperandsArePreparedOnce) {
  const std::string one = "graph @g(%x: f32[128,256], %v: f32[256,1024], %w: f32[256,1024]) { return matmul(%x, %v) }";
  std::string two = one;
  two.replace(two.find("matmul(%x, %v)"), 14, "matmul(%x, %v), matmul(%x, %w)");
  expect_compiles(two, kChainTolerance);
  const auto steps = [](const std::string& text) {
    compile::LowerOptions options;
    options.target = *loop::parse_target("x86-64-v4-amx");
    const auto lowered = compile::lower(graph_of(text), ops::table(), options);
    EXPECT_TRUE(lowered.ok());
    return lowered.ok() ? lowered->plan.steps.size() : 0;
  };
  EXPECT_EQ(steps(one), 3U);  // rows, columns, product
  EXPECT_EQ(steps(two), 5U);
}

// Last tiles of at most half the rows, blocks that differ by a tile, and an odd number of panels whose rows are cut in two: as many tasks as two
// workers share evenly.
TEST(Split, WorkIsSharedEvenly) {
  for (const int64_t l2 : {int64_t{2} << 20, int64_t{64} << 10}) {
    const compile::ExecutableOptions options = with_cache(l2);
    for (const auto& [m, k, n] : std::vector<std::array<int64_t, 3>>{
             {196, 96, 576}, {208, 128, 160}, {177, 256, 96}, {784, 64, 64}, {300, 160, 160}, {68, 512, 224}})
      expect_compiles(product(m, k, n), kChainTolerance, options);
    expect_compiles(text({1, 64, 17, 17, 160, 5, "pads=[2,2,2,2]"}), kChainTolerance, options);
  }
  compile::LowerOptions options;
  options.target = *loop::parse_target("x86-64-v4-amx");
  for (const auto& [m, k, n] : std::vector<std::array<int64_t, 3>>{{784, 256, 64}, {289, 1120, 160}, {49, 1200, 96}}) {
    const auto lowered = compile::lower(graph_of(fmt::format("graph @g(%x: f32[{0},{1}]) {{ return matmul(%x, {2}) }}",
                                                             m, k, constant(fmt::format("{},{}", k, n), k * n))),
                                        ops::table(), options);
    ASSERT_TRUE(lowered.ok());
    EXPECT_EQ(lowered->plan.steps.back().tasks % 2, 0) << m << " " << k << " " << n;
  }
}

// Rows that do not stay in the second cache: in blocks that do, so that all columns pass while they are there and no step brings them
// together first; few rows in tasks of some columns.
TEST(Split, RowsStayNear) {
  const compile::ExecutableOptions small = with_cache(64 << 10);
  for (const auto& [m, k, n] : std::vector<std::array<int64_t, 3>>{{300, 160, 64}, {257, 96, 96}, {150, 320, 160}})
    expect_compiles(product(m, k, n), kChainTolerance, small);
  compile::LowerOptions options;
  options.target = *loop::parse_target("x86-64-v4-amx");
  options.target.l2_bytes = 2 << 20;
  const auto steps = [&](int64_t m, int64_t k, int64_t n) {
    const auto lowered = compile::lower(
        graph_of(
            fmt::format("graph @g(%x: f32[{0},{1}]) {{ return matmul(%x, const f32[{1},{2}] splat(0.5)) }}", m, k, n)),
        ops::table(), options);
    EXPECT_TRUE(lowered.ok());
    return lowered.ok() ? std::pair(lowered->plan.steps.size(), lowered->plan.steps.back().tasks)
                        : std::pair(size_t{0}, int64_t{0});
  };
  EXPECT_EQ(steps(784, 1280, 256), std::pair(size_t{1}, int64_t{8}));
  EXPECT_EQ(steps(784, 2048, 512), std::pair(size_t{1}, int64_t{6}));
  EXPECT_EQ(steps(196, 2688, 448),
            std::pair(size_t{2}, int64_t{6}));  // two blocks for four tasks and more: rows before
  EXPECT_EQ(steps(128, 3072, 768), std::pair(size_t{2}, int64_t{8}));  // as near as they come
}

// Few rows by weights that the second cache does not hold: three bytes of each, where the target can take them apart.
TEST(Split, FewRowsByManyWeights) {
  const compile::ExecutableOptions options = with_cache(16 << 10);
  for (const auto& [m, k, n] :
       std::vector<std::array<int64_t, 3>>{{1, 100, 70}, {1, 128, 300}, {3, 67, 129}, {8, 200, 64}})
    expect_compiles(
        fmt::format("graph @g(%x: f32[{0},{1}], %r: f32[{0},{2}]) {{ return relu(add(matmul(%x, {3}), %r)) }}", m, k, n,
                    constant(fmt::format("{},{}", k, n), k * n)),
        kChainTolerance, options);
}

// Weights that steps read one after the other, as in a recurrent layer: every second one goes through them backward.
TEST(Split, StepsTurnAround) {
  const compile::ExecutableOptions options = with_cache(16 << 10);
  const std::string text = "graph @g(%x: f32[1,256]) { %w = " + constant("256,256", 256 * 256) +
                           " %a = matmul(%x, %w) %b = matmul(tanh(%a), %w) return matmul(tanh(%b), %w) }";
  expect_compiles(text, 2e-4, options);  // errors grow from step to step
  const auto lowered = compile::lower(graph_of(text), ops::table(), options.lower);
  ASSERT_TRUE(lowered.ok());
  std::vector<bool> backward;
  for (const compile::Step& s : lowered->plan.steps)
    if (s.flops > 1e5) backward.push_back(s.backward);
  EXPECT_EQ(backward, (std::vector<bool>{false, true, false}));
}

// Which way is taken is the model's choice; what a strict program must not have is any of it.
TEST(Split, StrictProgramsHaveNone) {
  const ir::Graph g =
      graph_of("graph @g(%x: f32[128,256]) { return matmul(%x, " + constant("256,256", 256 * 256) + ") }");
  for (const bool split : {true, false}) {
    compile::LowerOptions options;
    options.target = *loop::parse_target("x86-64-v4-amx");
    options.split = split;
    const auto lowered = compile::lower(g, ops::table(), options);
    ASSERT_TRUE(lowered.ok());
    bool halves = false;
    for (const loop::Function& f : lowered->functions)
      for (const loop::Buffer& b : f.buffers) halves = halves || b.dtype == DType::BF16;
    EXPECT_EQ(halves, split);
  }
}

}  // namespace
}  // namespace isomer
