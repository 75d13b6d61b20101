// Products of quantised numbers: bit for bit what the interpreter says, on every way that rows come to tiles of bytes. On a
// machine without byte products the same graphs are plain loops.
#include "compile/integer_products.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>

#include "base/random.h"
#include "compile/constant_stages.h"
#include "compile/forms.h"
#include "compile/stages.h"
#include "loop/intrinsics.h"
#include "test/unit/compile/compiled.h"

namespace isomer {
namespace {

std::string bytes(const std::string& type, const std::string& dims, int64_t elements, uint64_t seed = 3) {
  Random random(seed);
  const int64_t low = type == "u8" ? 0 : -128;
  std::string text = "const " + type + "[" + dims + "] [";
  for (int64_t i = 0; i < elements; ++i) text += fmt::format("{}{}", i ? "," : "", random.between(low, low + 255));
  return text + "]";
}

// How many products of bytes the compiler finds in a graph for this machine.
int64_t products_in(const std::string& text, const loop::Target& target = *codegen::host_target()) {
  auto stages = compile::stages_of(graph_of(text), ops::table());
  EXPECT_TRUE(stages.ok());
  compile::integer_products(*stages, target);
  int64_t found = 0;
  for (const compile::ModelStage& s : stages->stages)
    if (const auto c = compile::contraction(s, stages->values); c && c->bytes()) ++found;
  return found;
}

bool has_byte_products() {
  const auto target = codegen::host_target();
  return target.ok() && (!loop::dot_products_for(*target, DType::U8, DType::I8).empty() ||
                         !loop::dot_products_for(*target, DType::I8, DType::I8).empty());
}

void expect_exact(const std::string& text, int64_t products = 1) {
  expect_compiles(text, 0, {}, false);
  if (has_byte_products()) {
    EXPECT_EQ(products_in(text), products) << text.substr(0, 200);
  }
}

TEST(IntegerProducts, MatrixProductsOfEveryShape) {
  for (const auto& [m, k, n] : std::vector<std::array<int64_t, 3>>{{1, 64, 40},
                                                                   {3, 5, 8},
                                                                   {14, 7, 33},
                                                                   {33, 63, 65},
                                                                   {64, 128, 96},
                                                                   {200, 64, 32},
                                                                   {9, 2048, 64},
                                                                   {300, 129, 50}})
    expect_exact(fmt::format("graph @g(%x: u8[{},{}]) {{ return matmul_integer(%x, {}) }}", m, k,
                             bytes("i8", fmt::format("{},{}", k, n), k * n)));
}

// The same by vectors alone, and on machines that have no such instruction.
TEST(IntegerProducts, OtherTargets) {
  const auto host = codegen::host_target();
  ASSERT_TRUE(host.ok());
  for (const char* name : {"x86-64-v4-vnni", "x86-64-v4", "x86-64-v3", "aarch64-dotprod", "aarch64"}) {
    const auto target = loop::parse_target(name);
    ASSERT_TRUE(target.ok());
    const auto missing = [&](const std::string& f) { return !host->has(f); };
    if (target->arch != host->arch || std::any_of(target->features.begin(), target->features.end(), missing)) continue;
    compile::ExecutableOptions options;
    options.lower.target = *target;
    for (const int64_t m : {1, 15, 48})
      expect_compiles(
          fmt::format("graph @g(%x: i8[{},70]) {{ return matmul_integer(%x, {}, const i8[] 7, const u8[] 130) }}", m,
                      bytes("u8", "70,33", 70 * 33)),
          0, options, false);
    expect_compiles(
        fmt::format("graph @g(%x: u8[1,16,9,9]) {{ return conv_integer(%x, {}, const u8[] 9){{pads=[1,1,1,1]}} }}",
                    bytes("i8", "24,16,3,3", 24 * 144)),
        0, options, false);
  }
}

TEST(IntegerProducts, SignsAndZeroPoints) {
  for (const char* left : {"u8", "i8"})
    for (const char* right : {"u8", "i8"})
      for (const char* zeros : {"", ", {0}[] 7", ", {0}[] 7, {1}[] 3", ", {0}[] 0, {1}[16] "})
        for (const int64_t m : {5, 48}) {
          std::string z = fmt::format(fmt::runtime(zeros), left, right);
          if (z.ends_with("[16] ")) z += "[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16]";
          size_t at = 0;
          while ((at = z.find(", ", at)) != std::string::npos) z.insert(at += 2, "const ");
          expect_exact(fmt::format("graph @g(%x: {}[{},64]) {{ return matmul_integer(%x, {}{}) }}", left, m,
                                   bytes(right, "64,16", 1024), z));
        }
}

TEST(IntegerProducts, ZeroPointsThatAreComputed) {
  expect_exact(fmt::format("graph @g(%x: u8[40,64], %z: u8[]) {{ return matmul_integer(%x, {}, %z) }}",
                           bytes("i8", "64,48", 64 * 48)));
  expect_exact(
      fmt::format("graph @g(%x: u8[2,20,64], %z: u8[20]) {{ return matmul_integer(%x, {}, %z, const u8[] 9) }}",
                  bytes("u8", "64,48", 64 * 48)));
  expect_exact(
      fmt::format("graph @g(%x: u8[1,16,9,9], %z: u8[]) {{ return conv_integer(%x, {}, %z){{pads=[1,1,1,1]}} }}",
                  bytes("i8", "32,16,3,3", 32 * 144)));
}

TEST(IntegerProducts, Convolutions) {
  const std::string w = bytes("i8", "24,16,3,3", 24 * 144);
  for (const char* attrs :
       {"", "{pads=[1,1,1,1]}", "{strides=[2,2], pads=[1,0,2,1]}", "{dilations=[2,2], pads=[2,2,2,2]}"})
    for (const char* type : {"u8", "i8"})
      expect_exact(fmt::format("graph @g(%x: {0}[2,16,11,13]) {{ return conv_integer(%x, {1}, const {0}[] 100){2} }}",
                               type, w, attrs));
  expect_exact(
      fmt::format("graph @g(%x: u8[1,32,9,9]) {{ return conv_integer(%x, {}, const u8[] 9, const i8[16] "
                  "splat(2)){{group=2, pads=[1,1,1,1]}} }}",
                  bytes("i8", "16,16,3,3", 16 * 144)));
  expect_exact(
      fmt::format("graph @g(%x: u8[1,64,14,14]) {{ return conv_integer(%x, {}) }}", bytes("i8", "64,64,1,1", 4096)));
}

TEST(IntegerProducts, RequantisedResults) {
  expect_exact(
      fmt::format("graph @g(%x: u8[50,64]) {{ return qlinear_matmul(%x, const f32[] 0.02, const u8[] 120, {}, const "
                  "f32[] 0.01, const "
                  "i8[] 0, const f32[] 0.5, const u8[] 118) }}",
                  bytes("i8", "64,48", 64 * 48)));
  expect_exact(fmt::format(
      "graph @g(%x: i8[1,16,9,9], %b: i32[32]) {{ return qlinear_conv(%x, const f32[] 0.02, const i8[] 3, {}, const "
      "f32[32] splat(0.01), const i8[32] splat(0), const f32[] 2.5, const i8[] -8, %b){{pads=[1,1,1,1]}} }}",
      bytes("i8", "32,16,3,3", 32 * 144)));
  expect_compiles(
      fmt::format("graph @g(%x: f32[33,64], %b: f32[48]) {{ return ms_dynamic_quantize_matmul(%x, {}, const "
                  "f32[48] splat(0.02), const i8[48] splat(0), %b) }}",
                  bytes("i8", "64,48", 64 * 48)));
}

// Dequantised numbers that meet in a product of floats are multiplied as bytes; what follows is computed in float.
TEST(IntegerProducts, DequantisedOperands) {
  const auto text = [](const char* tail) {
    return fmt::format(
        "graph @g(%x: u8[1,16,9,9], %b: f32[32]) {{ %a = dequantize_linear(%x, const f32[] 0.02, const u8[] 120) %w = "
        "dequantize_linear({}, const f32[32] splat(0.01), const i8[32] splat(0)){{axis=0}} %y = relu(conv(%a, %w, "
        "%b){{pads=[1,1,1,1]}}) {} }}",
        bytes("i8", "32,16,3,3", 32 * 144), tail);
  };
  expect_compiles(text("return %y"), 1e-6);
  EXPECT_EQ(products_in(text("return %y"), target_with_byte_products()), 1);
  EXPECT_EQ(products_in(text("return %y"), *loop::parse_target("x86-64-v4")), 0);
}

// Sums that nothing follows are stored as they are; two products that meet in a sum cannot both have it behind them.
TEST(IntegerProducts, ResidualSums) {
  const std::string w = bytes("i8", "32,16,1,1", 512), v = bytes("i8", "32,16,1,1", 512, 4);
  expect_exact(
      fmt::format("graph @g(%x: u8[1,16,9,9], %y: u8[1,16,9,9]) {{ return add(conv_integer(%x, {}, const u8[] 3), "
                  "conv_integer(%y, {}, const u8[] 7)) }}",
                  w, v),
      2);
}

// Numbers that become bytes: saturated, halves to even, and 0 for what is no number.
TEST(IntegerProducts, QuantisedElements) {
  for (const char* type : {"u8", "i8", "u16", "i16"}) {
    const std::string zero = fmt::format("const {}[] 3", type);
    expect_compiles(
        fmt::format("graph @g(%x: f32[1000]) {{ return quantize_linear(%x, const f32[] 0.0078125, {}) }}", zero), 0, {},
        false);
    expect_compiles(
        fmt::format("graph @g(%x: f32[40]) {{ %m = mul(%x, const f32[] 1e30) return quantize_linear(mul(%m, %m), "
                    "const f32[] 0.5, {0}), cast(sub(mul(%m, %m), mul(%m, %m))){{to={1}}} }}",
                    zero, type),
        0, {}, false);
  }
}

// Weights that are dequantised for floats are constants of the plan.
TEST(IntegerProducts, WeightsOfFloats) {
  const std::string text = fmt::format(
      "graph @g(%x: f32[20,64]) {{ return matmul(%x, dequantize_linear({}, const f32[48] splat(0.01)){{axis=1}}) }}",
      bytes("i8", "64,48", 64 * 48));
  expect_compiles(text);
  expect_compiles(
      fmt::format("graph @g(%x: f32[5,64]) {{ return ms_matmul_nbits(%x, {}, const f32[96] splat(0.02)){{K=64, "
                  "N=48, block_size=32}} }}",
                  bytes("u8", "48,2,16", 48 * 32)));
}

// How many sums of floats over bytes the compiler makes of integer ones.
int64_t float_sums_in(const std::string& text) {
  const auto target = codegen::host_target();
  auto stages = compile::stages_of(graph_of(text), ops::table());
  EXPECT_TRUE(target.ok() && stages.ok());
  compile::integer_products(*stages, *target);
  int64_t found = 0;
  for (const compile::ModelStage& s : stages->stages) {
    if (!s.is_reduction() || s.body->combiner != te::Combiner::Sum || s.body.dtype() != DType::F32) continue;
    for (const int v : compile::values_read(s.body)) {
      const DType type = stages->values[static_cast<size_t>(v)].dtype;
      found += type == DType::U8 || type == DType::I8;
    }
  }
  return found;
}

// Channels that stay apart: exact in floats, between row-major values and where channels lie together.
TEST(IntegerProducts, Windows) {
  const auto text = [](const char* type, int channels, int group, const char* zeros, const std::string& attrs) {
    const int in = channels / group;
    return fmt::format("graph @g(%x: {0}[2,{1},9,13]) {{ return conv_integer(%x, {2}{3}){{group={4}{5}}} }}", type,
                       channels, bytes(type, fmt::format("{},{},3,3", channels, in), channels * in * 9),
                       fmt::format(fmt::runtime(zeros), type), group, attrs);
  };
  for (const char* type : {"u8", "i8"})
    for (const char* zeros : {"", ", const {0}[] 100", ", const {0}[] 3, const {0}[] 27"})
      for (const char* attrs :
           {"", ", pads=[1,1,1,1]", ", strides=[2,2], pads=[1,0,2,1]", ", dilations=[2,3], pads=[2,2,2,2]"}) {
        expect_exact(text(type, 20, 20, zeros, attrs), 0);
        EXPECT_EQ(float_sums_in(text(type, 20, 20, zeros, attrs)), 1);
      }
  expect_exact(text("u8", 32, 8, ", const {0}[] 9", ", pads=[1,1,1,1]"), 0);
  // A sum that floats do not hold stays one of integers.
  const std::string large = fmt::format("graph @g(%x: u8[1,4,40,40]) {{ return conv_integer(%x, {}){{group=4}} }}",
                                        bytes("i8", "4,1,33,33", 4 * 33 * 33));
  expect_exact(large, 0);
  EXPECT_EQ(float_sums_in(large), 0);
}

TEST(IntegerProducts, WindowsBetweenProducts) {
  const auto layer = [](const char* x, int out, int in, int taps, const char* attrs) {
    return fmt::format(
        "qlinear_conv({}, const f32[] 0.02, const i8[] 3, {}, const f32[{}] splat(0.01), const i8[{}] splat(0), "
        "const f32[] 0.25, const i8[] 3){{{}}}",
        x, bytes("i8", fmt::format("{},{},{},{}", out, in, taps, taps), int64_t{out} * in * taps * taps), out, out,
        attrs);
  };
  for (const char* attrs : {"group=24, pads=[1,1,1,1]", "group=24, strides=[2,2]", "group=6, pads=[1,1,1,1]"}) {
    const int in = std::string_view(attrs).starts_with("group=24") ? 1 : 4;
    expect_exact(fmt::format("graph @g(%x: i8[1,16,12,19]) {{ %a = {} %b = {} return {} }}", layer("%x", 24, 16, 1, ""),
                             layer("%a", 24, in, 3, attrs), layer("%b", 16, 24, 1, "")),
                 2);
  }
  // A zero point that is computed is taken off on the way.
  expect_exact(fmt::format("graph @g(%x: u8[1,20,9,9], %z: u8[]) {{ return conv_integer(%x, {}, %z){{group=20, "
                           "pads=[1,1,1,1]}} }}",
                           bytes("i8", "20,1,3,3", 180)),
               0);
}

// Dequantised depthwise products are sums of bytes, and what is stored is bytes.
TEST(IntegerProducts, QuantisedWindows) {
  const std::string text = fmt::format(
      "graph @g(%x: u8[1,32,9,9]) {{ %a = dequantize_linear(%x, const f32[] 0.02, const u8[] 120) %w = "
      "dequantize_linear({}, "
      "const f32[] 0.01) return quantize_linear(relu(conv(%a, %w){{group=32, pads=[1,1,1,1]}}), const f32[] 0.125, "
      "const u8[] 3), "
      "quantize_linear(max_pool(%a){{kernel_shape=[3,3], strides=[2,2]}}, const f32[] 0.125, const u8[] 3) }}",
      bytes("i8", "32,1,3,3", 288));
  expect_compiles(text, 1.0 / 255);
}

// Halves are multiplied in float and rounded once.
TEST(WidenedProducts, MatrixProductsAndConvolutions) {
  for (const char* type : {"f16", "bf16"}) {
    expect_compiles(fmt::format("graph @g(%x: {0}[20,48], %w: {0}[48,40]) {{ return matmul(%x, %w) }}", type), 1e-2);
    expect_compiles(fmt::format("graph @g(%x: {0}[1,16,9,9], %b: {0}[32]) {{ return relu(conv(%x, const {0}[32,16,3,3] "
                                "splat(0.125), %b){{pads=[1,1,1,1]}}) }}",
                                type),
                    1e-2);
  }
}

// Weights that several products share are there once, each with a scalar of its own for their zero point.
TEST(IntegerProducts, SharedWeights) {
  const std::string text = fmt::format(
      "graph @g(%x: f32[3,64]) {{ %w = {} %a = ms_dynamic_quantize_matmul(%x, %w, const f32[] 0.01, const i8[] 3) "
      "return ms_dynamic_quantize_matmul(tanh(%a), %w, const f32[] 0.01, const i8[] 3) }}",
      bytes("i8", "64,64", 64 * 64));
  expect_compiles(text);
  if (!has_byte_products()) return;
  EXPECT_EQ(products_in(text), 2);
  const auto target = codegen::host_target();
  auto stages = compile::stages_of(graph_of(text), ops::table());
  ASSERT_TRUE(target.ok() && stages.ok());
  compile::integer_products(*stages, *target);
  std::set<int> weights;
  for (const compile::ModelStage& s : stages->stages)
    if (compile::contraction(s, stages->values))
      for (const int v : compile::values_read(s.body))
        if (stages->values[static_cast<size_t>(v)].constant) weights.insert(v);
  EXPECT_EQ(weights.size(), 1u);
}

// A part of larger weights (one direction of a recurrent layer) keeps its bytes.
TEST(IntegerProducts, PartsOfWeights) {
  const std::string text =
      fmt::format("graph @g(%x: u8[2,64]) {{ %w = {} return matmul_integer(%x, gather(%w, const i64[] 1)) }}",
                  bytes("i8", "2,64,48", 2 * 64 * 48));
  expect_compiles(text, 0, {}, false);
  auto stages = compile::stages_of(graph_of(text), ops::table());
  const auto target = codegen::host_target();
  ASSERT_TRUE(target.ok() && stages.ok());
  compile::constant_stages(*stages, true, compile::Taken::Moves);
  compile::integer_products(*stages, *target);
  const auto is_bytes = [&](const compile::ModelStage& s) {
    const auto c = compile::contraction(s, stages->values);
    return c && c->bytes();
  };
  if (has_byte_products()) {
    EXPECT_TRUE(std::any_of(stages->stages.begin(), stages->stages.end(), is_bytes));
  }
}

// What an output is a view of has memory of its own, constant or not.
TEST(ConstantStages, OutputsAreNot) {
  expect_compiles(
      fmt::format("graph @g(%x: bool[64,48]) {{ %w = dequantize_linear({}, const f32[] 0.01) return where(%x, %w, %w), "
                  "reshape(%w, [48,64]) }}",
                  bytes("i8", "64,48", 64 * 48)));
}

// The range of all elements, wherever they lie.
TEST(IntegerProducts, RangesOfImages) {
  expect_compiles(
      fmt::format("graph @g(%x: f32[1,16,9,9], %w: f32[32,16,1,1]) {{ %y, %s, %z = dynamic_quantize_linear(relu("
                  "conv(%x, %w))) return conv_integer(%y, {}, %z), %s }}",
                  bytes("i8", "16,32,3,3", 16 * 288)),
      1e-2);
}

}  // namespace
}  // namespace isomer
