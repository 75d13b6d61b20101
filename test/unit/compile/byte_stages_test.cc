// Between quantising and dequantising bytes stay bytes: what is moved, joined, pooled. Bit by bit as the operators say.
#include "compile/byte_stages.h"

#include <fmt/format.h>

#include "base/random.h"
#include "compile/labels.h"
#include "compile/lower.h"
#include "compile/stages.h"
#include "test/unit/compile/compiled.h"

namespace isomer {
namespace {

const char* kScales[] = {"const f32[] 0.02, const u8[] 7", "const f32[] 0.031, const u8[] 12"};

std::string dq(const std::string& x, int scale = 0) {
  return fmt::format("dequantize_linear({}, {})", x, kScales[scale]);
}
std::string q(const std::string& x, int scale = 0) { return fmt::format("quantize_linear({}, {})", x, kScales[scale]); }

// The floats that the graph, compiled for a machine with byte products, stores between its kernels, in elements.
int64_t floats_stored(const std::string& text) {
  auto stages = compile::stages_of(graph_of(text), ops::table());
  compile::LowerOptions options;
  EXPECT_TRUE(stages.ok());
  options.target = target_with_byte_products();
  const compile::Grouped model = compile::grouped(*std::move(stages), options);
  int64_t found = 0;
  for (const compile::Group& g : model.groups) {
    const compile::StageValue& v =
        model.graph.values[static_cast<size_t>(model.graph.stages[static_cast<size_t>(g.stages.back())].value)];
    if (v.dtype == DType::F32) found += v.elements();
  }
  return found;
}

constexpr int64_t kFew = 128;       // counts of what a window holds
constexpr double kOne = 1.0 / 100;  // a quantum, where floats are added: their roundings are not told

void expect_bytes(const std::string& text, double tolerance = 0, double least = 0) {
  expect_compiles(text, tolerance, {}, false, least);
  EXPECT_LE(floats_stored(text), kFew) << text;
}

TEST(ByteStages, MovesAndPools) {
  const auto graph = [](const std::string& body) {
    return "graph @g(%x: u8[1,16,9,11], %y: u8[1,16,9,11]) { " + body + " }";
  };
  for (const int to : {0, 1}) {
    expect_bytes(graph("return " + q("transpose(" + dq("%x") + "){perm=[0,2,3,1]}", to)));
    expect_bytes(graph("return " + q("reshape(" + dq("%x") + ", [16,99])", to)));
    expect_bytes(
        graph("return " + q("slice(" + dq("%x") + ", const i64[1] [2], const i64[1] [9], const i64[1] [1])", to)));
    expect_bytes(graph("return " + q("concat(" + dq("%x") + ", " + dq("%y") + "){axis=1}", to)));
    expect_compiles(graph("return " + q("concat(" + dq("%x") + ", " + dq("%y", 1) + "){axis=1}", to)), 0, {}, false);
    expect_bytes(graph("return " + q("relu(" + dq("%x") + ")", to)));
    expect_bytes(graph("return " + q("add(" + dq("%x") + ", " + dq("%y", 1) + ")", to)), kOne);
    for (const char* pool : {"kernel_shape=[3,3], strides=[2,2]", "kernel_shape=[3,3], pads=[1,1,1,1]",
                             "kernel_shape=[2,5], pads=[1,2,0,2], ceil_mode=1"}) {
      expect_bytes(graph("return " + q("max_pool(" + dq("%x") + "){" + pool + "}", to)));
      // Sums are rounded once, where those of floats are rounded at every step.
      expect_bytes(graph("return " + q("average_pool(" + dq("%x") + "){" + pool + "}", to)), kOne);
    }
    expect_bytes(graph("return " + q("global_average_pool(" + dq("%x") + ")", to)), kOne);
  }
}

// Several in a row, between products whose channels lie together. Where products are floats, a byte between them may fall the
// other way.
TEST(ByteStages, Networks) {
  std::string w;
  for (int i = 0; i < 16 * 16; ++i) w += fmt::format("{}{}", i ? "," : "", (i * 37) % 251 - 125);
  const auto conv = [&](const std::string& x, const char* scale = "0.0013") {
    return "relu(conv(" + x + ", dequantize_linear(const i8[16,16,1,1] [" + w + "], const f32[] " + scale + ")))";
  };
  const std::string start = "graph @g(%x: u8[1,16,12,12]) { %a = " + q(conv(dq("%x"))) + " ";
  expect_bytes(start + "%p = " + q("max_pool(" + dq("%a") + "){kernel_shape=[3,3], strides=[2,2]}") + " return " +
                   q(conv(dq("%p")), 1) + " }",
               kOne, 1);
  expect_bytes(start + "%b = " + q(conv(dq("%a")), 1) + " %c = " + q(conv(dq("%a"), "0.0017")) +
                   " %d = " + q("concat(" + dq("%b", 1) + ", " + dq("%c") + "){axis=1}") +
                   " %p = " + q("max_pool(" + dq("%d") + "){kernel_shape=[2,2], strides=[2,2]}") + " return %p }",
               kOne, 1);
  expect_bytes(start + "%b = " + q(conv(dq("%a")), 1) + " %s = " + q("add(" + dq("%a") + ", " + dq("%b", 1) + ")") +
                   " return " + q(conv(dq("%s")), 1) + " }",
               2 * kOne, 1);
}

// Two products that meet in a sum: one takes the sum along, the other is stored as bytes.
TEST(ByteStages, ProductsThatMeet) {
  std::string w;
  for (int i = 0; i < 16 * 16; ++i) w += fmt::format("{}{}", i ? "," : "", (i * 37) % 251 - 125);
  const auto conv = [&](const std::string& x, const char* scale) {
    return "conv(" + dq(x) + ", dequantize_linear(const i8[16,16,1,1] [" + w + "], const f32[] " + scale + "))";
  };
  const std::string text =
      "graph @g(%x: u8[1,16,12,12], %y: u8[1,16,12,12]) { return " +
      q("relu(add(" + dq(q(conv("%x", "0.0013"))) + ", " + dq(q(conv("%y", "0.0017"), 1), 1) + "))") + " }";
  expect_bytes(text, kOne);
  auto stages = compile::stages_of(graph_of(text), ops::table());
  compile::LowerOptions options;
  options.target = target_with_byte_products();
  const compile::Grouped model = compile::grouped(*std::move(stages), options);
  for (const compile::Group& g : model.groups) {
    const int last = g.stages.back();
    EXPECT_EQ(model.graph.values[static_cast<size_t>(model.graph.stages[static_cast<size_t>(last)].value)].dtype,
              DType::U8);
  }
}

// Quantised as it was dequantised: nothing, for every byte and scales of every size.
TEST(ByteStages, TheSameScaleIsNothing) {
  const uint64_t seed = 5;
  SCOPED_TRACE(fmt::format("seed {}", seed));
  Random random(seed);
  for (int trial = 0; trial < 2000000; ++trial) {
    const auto scale = static_cast<float>(random.uniform(1e-6, 1e3));
    const auto byte = static_cast<float>(random.between(-255, 255));
    const float real = byte * scale;
    ASSERT_EQ(std::nearbyint(real / scale), byte) << byte << " times " << scale;
  }
}

// What is also read as floats is both.
TEST(ByteStages, FloatsThatAreWanted) {
  expect_compiles("graph @g(%x: u8[1,16,9,9]) { %a = " + dq("%x") +
                  " %t = transpose(%a){perm=[0,2,3,1]} return %a, %t, " + q("%t") +
                  ", reduce_max(%a, const i64[1] [1]) }");
}

}  // namespace
}  // namespace isomer
