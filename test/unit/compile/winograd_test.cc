// 3x3 convolutions by minimal filtering: tiles that fit and tiles that hang over, padding, images, panels, epilogues.
#include "test/unit/compile/compiled.h"

namespace isomer {
namespace {

std::string conv(const std::string& input, const std::string& taps, const std::string& attrs) {
  return "graph @g(%z: f32[" + input + "], %b: f32[1,1,1]) { %x = mul(conv(%z, const f32[" + input.substr(2, 2) + "," +
         input.substr(2, 2) + ",1,1] splat(0.01)), %b) %w = const f32[" + taps +
         "] splat(0.25) return relu(add(conv(%x, %w)" + attrs + ", %b)) }";
}

void expect_filters(const std::string& text, double tolerance = 1e-5) {
  compile::ExecutableOptions options;
  options.lower.split = false;
  expect_compiles(text, tolerance, options);
}

size_t steps(const std::string& text, bool winograd) {
  compile::LowerOptions options;
  options.target = *loop::parse_target("x86-64-v4");
  options.winograd = winograd;
  const auto lowered = compile::lower(graph_of(text), ops::table(), options);
  EXPECT_TRUE(lowered.ok());
  size_t scratch = 0;
  for (const compile::Step& s : lowered->plan.steps) scratch = std::max<size_t>(scratch, s.scratch_bytes);
  return scratch;
}

// Frames of one video as images, with a dim of one element before and after; by filtering and by windows of an image.
TEST(Winograd, FramesOfAVideo) {
  const std::string text = R"(
graph @g(%x: f32[1,16,5,18,20], %b: f32[1]) {
  %v = relu(conv(mul(%x, %b), const f32[16,16,3,3,3] splat(0.01)){pads=[1,1,1,1,1,1]})
  %f = squeeze(transpose(%v){perm=[0,2,1,3,4]}, const i64[1] [0])
  %y = conv(%f, const f32[32,16,3,3] splat(0.02), const f32[32] splat(0.3)){pads=[1,1,1,1]}
  %u = relu(transpose(unsqueeze(%y, const i64[1] [0])){perm=[0,2,1,3,4]})
  return conv(%u, const f32[16,32,3,3,3] splat(0.01)){pads=[1,1,1,1,1,1], strides=[1,2,2]}
})";
  expect_filters(text, 2e-5);
  expect_compiles(text, 1e-4);
}

TEST(Winograd, EveryShapeOfTiles) {
  for (const char* size : {"4,4", "5,7", "8,12", "13,9"})
    for (const char* attrs : {"", "{pads=[1,1,1,1]}", "{pads=[2,0,1,2]}"})
      expect_filters(conv(std::string("1,16,") + size, "16,16,3,3", attrs), 2e-5);
}

// All channels are equal in these, so that their roundings add up instead of evening out.
TEST(Winograd, ImagesAndPanels) {
  expect_filters(conv("3,17,6,6", "40,17,3,3", "{pads=[1,1,1,1]}"), 2e-5);
  expect_filters(conv("2,32,14,14", "70,32,3,3", "{pads=[1,1,1,1]}"), 2e-5);
  expect_filters(conv("1,48,30,31", "33,48,3,3", "{pads=[1,1,1,1]}"), 2e-5);
}

TEST(Winograd, TapsTransformedWhenTheyAreNeeded) {
  expect_filters(conv("1,97,13,12", "90,97,3,3", "{pads=[1,1,1,1]}"), 5e-5);  // several pieces of channels
  expect_filters(conv("1,99,7,7", "130,99,3,3", "{pads=[1,1,1,1]}"), 5e-5);   // F(2x2,3x3)
}

TEST(Winograd, AlongOneAxis) {
  for (const char* attrs : {"", "{pads=[0,3,0,3]}", "{pads=[1,0,2,4]}"})
    expect_filters(conv("1,16,5,13", "24,16,1,7", attrs), 2e-5);
  expect_filters(conv("2,17,13,6", "40,17,7,1", "{pads=[3,0,3,0]}"), 2e-5);
  expect_filters(conv("1,16,8,8", "16,16,1,3", "{pads=[0,1,0,1]}"), 2e-5);
  expect_filters(conv("1,16,9,3", "33,16,3,1", "{pads=[1,0,1,0]}"), 2e-5);
  expect_filters(conv("1,99,17,17", "130,99,7,1", "{pads=[3,0,3,0]}"), 5e-5);  // taps transformed when they are needed
  for (const char* taps : {"32,32,1,7", "32,32,3,1"})
    EXPECT_NE(steps(conv("1,32,14,14", taps, ""), true), steps(conv("1,32,14,14", taps, ""), false));
}

TEST(Winograd, IsChosenForTapsOneApartOnly) {
  const std::string plain = conv("1,32,14,14", "32,32,3,3", "{pads=[1,1,1,1]}");
  EXPECT_NE(steps(plain, true), steps(plain, false));
  for (const char* attrs : {"{strides=[2,2], pads=[1,1,1,1]}", "{dilations=[2,2], pads=[2,2,2,2]}"}) {
    const std::string other = conv("1,32,14,14", "32,32,3,3", attrs);
    EXPECT_EQ(steps(other, true), steps(other, false)) << attrs;
    expect_filters(other);
  }
}

TEST(Winograd, RandomTapsAndResiduals) {
  // The taps come through a fold of constants: random numbers instead of one number nine times.
  std::string taps = "[";
  uint64_t x = 1;
  for (int i = 0; i < 16 * 16 * 9; ++i) {
    x = x * 6364136223846793005u + 1442695040888963407u;
    taps += (i ? "," : "") + std::to_string(static_cast<double>(x >> 40) / (1 << 24) - 0.5);
  }
  taps += "]";
  expect_filters(
      "graph @g(%x: f32[1,16,9,10]) { %w = const f32[16,16,3,3] " + taps +
          " %y = relu(conv(%x, const f32[16,16,1,1] splat(0.125))) return relu(add(conv(%y, %w){pads=[1,1,1,1]}, %y)), "
          "conv(%y, %w) }",
      2e-5);
}

}  // namespace
}  // namespace isomer
