// Sums that become bytes again: bounds and divisions go into constants, and where a division stays it rounds as one.
#include "compile/requantised.h"

#include <fmt/format.h>

#include <bit>
#include <cmath>

#include "base/random.h"
#include "compile/group.h"
#include "compile/integer_products.h"
#include "compile/stages.h"
#include "te/substitute.h"
#include "test/unit/compile/compiled.h"

namespace isomer {
namespace {

// 16 channels, quantised before and after: what stands between the convolution and its bytes is `after` of %y.
std::string layer(const std::string& after, int group = 1, const char* scale = "0.0235") {
  const int in = 16 / group;
  std::string w;
  for (int i = 0; i < 16 * in * 9; ++i) w += fmt::format("{}{}", i ? "," : "", (i * 37) % 251 - 125);
  return fmt::format(
      "graph @g(%x: u8[1,16,9,9], %r: u8[1,16,9,9], %b: f32[16]) {{ %a = dequantize_linear(%x, const f32[] 0.02, const "
      "u8[] 120) "
      "%w = dequantize_linear(const i8[16,{0},3,3] [{1}], const f32[16] splat(0.0013)){{axis=0}} "
      "%y = conv(%a, %w, const f32[16] splat(0.25)){{group={2}, pads=[1,1,1,1]}} "
      "%s = dequantize_linear(%r, const f32[] 0.015, const u8[] 128) "
      "return quantize_linear({3}, const f32[] {4}, const u8[] 0) }}",
      in, w, group, after, scale);
}

// How many divisions, and bounds, are left in the stages that make bytes.
std::pair<int, int> left_in(const std::string& text) {
  auto stages = compile::stages_of(graph_of(text), ops::table());
  EXPECT_TRUE(stages.ok());
  compile::integer_products(*stages, target_with_byte_products());
  compile::inline_stages(*stages);
  compile::requantised(*stages);
  std::pair<int, int> out;
  for (const compile::ModelStage& s : stages->stages)
    te::for_each_node(s.body, [&](const te::Expr& n) {
      if (n->kind != te::Kind::Binary || n->dtype != DType::F32) return;
      out.first += n->binary == te::BinaryOp::Div;
      out.second += n->binary == te::BinaryOp::Max || n->binary == te::BinaryOp::Min;
    });
  return out;
}

TEST(Requantised, DivisionsAndBoundsGoIntoConstants) {
  for (const int group : {1, 16}) {
    SCOPED_TRACE(group);
    EXPECT_EQ(left_in(layer("relu(%y)", group)), std::pair(0, 0));
    EXPECT_EQ(left_in(layer("clip(%y, const f32[] 0, const f32[] 6)", group)), std::pair(0, 0));
    // A bound inside of the range stays, and so does one in the middle.
    EXPECT_EQ(left_in(layer("clip(%y, const f32[] 0, const f32[] 3)", group)), std::pair(0, 1));
    EXPECT_EQ(left_in(layer("add(relu(%y), %s)", group)), std::pair(0, 1));
    EXPECT_EQ(left_in(layer("relu(add(%y, %s))", group)), std::pair(0, 0));
    // Not a function of constants and the sum alone.
    EXPECT_EQ(left_in(layer("sigmoid(%y)", group)).first, 2);
  }
  // No sum: the bytes are those of the operators.
  EXPECT_EQ(left_in("graph @g(%x: f32[100]) { return quantize_linear(relu(%x), const f32[] 0.1, const u8[] 0) }"),
            std::pair(1, 1));
}

TEST(Requantised, BytesAreWithinOne) {
  for (const int group : {1, 4, 16})
    for (const char* after : {"relu(%y)", "%y", "clip(%y, const f32[] 0, const f32[] 3)", "add(relu(%y), %s)",
                              "relu(add(%y, %s))", "mul(%y, sigmoid(%y))"})
      expect_compiles(layer(after, group), 1.0 / 255, {}, false);
  // Scales that are powers of two leave nothing to round.
  std::string exact = layer("relu(%y)", 16, "0.0625");
  exact.replace(exact.find("0.02,"), 5, "0.5,");
  exact.replace(exact.find("0.0013"), 6, "0.0078125");
  expect_compiles(exact, 0, {}, false);
}

float beside(float x, int ulps) {
  return std::bit_cast<float>(static_cast<uint32_t>(std::bit_cast<int32_t>(x) + ulps));
}

// Every tie between two bytes and its neighbours, for scales of every size: what is divided by is one number for all.
TEST(Requantised, QuotientsRoundAsDivisionsDo) {
  const uint64_t seed = 11;
  SCOPED_TRACE(fmt::format("seed {}", seed));
  Random random(seed);
  constexpr int64_t kElements = 256 * 5;
  const ir::Graph g = graph_of(
      fmt::format("graph @g(%x: f32[{}], %s: f32[]) {{ return quantize_linear(%x, %s, const u8[] 7) }}", kElements));
  compile::ExecutableOptions options;
  const auto target = codegen::host_target();
  ASSERT_TRUE(target.ok());
  options.lower.target = *target;
  const auto made = compile::Executable::build(g, ops::table(), options);
  ASSERT_TRUE(made.ok()) << made.error().to_string();
  auto runner = compile::Runner::make(*made, 1, 0);
  ASSERT_TRUE(runner.ok());
  for (int trial = 0; trial < 2000; ++trial) {
    const int exponent =
        trial % 10 == 0 ? static_cast<int>(random.between(-110, 100)) : static_cast<int>(random.between(-20, 8));
    const float scale = std::ldexp(static_cast<float>(random.uniform(1, 2)), exponent);
    Tensor x(DType::F32, {kElements}), s(DType::F32, {});
    s.mutable_as<float>()[0] = scale;
    for (int64_t i = 0; i < kElements; ++i) {
      const double tie = static_cast<double>(i / 5 - 8) + 0.5;
      x.mutable_as<float>()[i] = beside(static_cast<float>(tie * scale), static_cast<int>(i % 5) - 2);
    }
    const auto got = runner->run({x, s});
    ASSERT_TRUE(got.ok());
    for (int64_t i = 0; i < kElements; ++i) {
      const float in = x.as<float>()[static_cast<size_t>(i)], quotient = in / scale;
      const float want = std::min(255.0f, std::max(0.0f, std::nearbyint(quotient) + 7.0f));
      ASSERT_EQ((*got)[0].integer(i), static_cast<int64_t>(want)) << fmt::format("{:a} / {:a}", in, scale);
    }
  }
}

}  // namespace
}  // namespace isomer
