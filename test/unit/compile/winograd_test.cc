// 3x3 convolutions by minimal filtering: tiles that fit and tiles that hang over, padding, images, panels, epilogues, and
// videos, whose taps lie in several frames.
#include <fmt/format.h>

#include <array>

#include "base/random.h"
#include "compile/convolution_shape.h"
#include "compile/label_space.h"
#include "driver/labelled.h"
#include "test/unit/compile/compiled.h"

namespace isomer {
namespace {

std::string conv(const std::string& input, const std::string& taps, const std::string& attrs) {
  return "graph @g(%z: f32[" + input + "], %b: f32[1,1,1]) { %x = mul(conv(%z, const f32[" + input.substr(2, 2) + "," +
         input.substr(2, 2) + ",1,1] splat(0.01)), %b) %w = const f32[" + taps +
         "] splat(0.25) return relu(add(conv(%x, %w)" + attrs + ", %b)) }";
}

// Without tile registers; `l2_bytes`: with a second cache of that size.
void expect_filters(const std::string& text, double tolerance = 1e-5, int64_t l2_bytes = 0) {
  compile::ExecutableOptions options;
  options.lower.split = false;
  if (l2_bytes > 0) {
    options.lower.target = *codegen::host_target();
    options.lower.target.l2_bytes = l2_bytes;
  }
  expect_compiles(text, tolerance, options);
}

constexpr int64_t kSmallCache = 96 << 10;

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

std::string numbers(Random& random, int64_t count) {
  std::string out = "[";
  for (int64_t i = 0; i < count; ++i)
    out += (i ? "," : "") + std::to_string(static_cast<double>(random.below(2001)) / 1000 - 1);
  return out + "]";
}

struct Video {
  int64_t n = 1, c = 16, d = 4, h = 8, w = 8, o = 16, taps = 3, dilation = 1;
  std::array<int64_t, 6> pads = {1, 1, 1, 1, 1, 1};
  std::string attrs() const {
    std::string out = "{dilations=[" + std::to_string(dilation) + ",1,1], pads=[";
    for (size_t i = 0; i < pads.size(); ++i) out += (i ? "," : "") + std::to_string(pads[i]);
    return out + "]}";
  }
};

// A convolution of a video with random taps between two of one tap, so that it reads and leaves channels that lie together.
std::string video(const Video& v, Random& random, std::string attrs = {}) {
  const auto n = [](int64_t x) { return std::to_string(x); };
  if (attrs.empty()) attrs = v.attrs();
  return "graph @g(%z: f32[" + n(v.n) + "," + n(v.c) + "," + n(v.d) + "," + n(v.h) + "," + n(v.w) + "]) {\n" +
         "%x = conv(%z, const f32[" + n(v.c) + "," + n(v.c) + ",1,1,1] " + numbers(random, v.c * v.c) + ")\n" +
         "%y = relu(conv(%x, const f32[" + n(v.o) + "," + n(v.c) + "," + n(v.taps) + ",3,3] " +
         numbers(random, v.o * v.c * v.taps * 9) + ", const f32[" + n(v.o) + "] splat(0.5))" + attrs + ")\n" +
         "return conv(%y, const f32[3," + n(v.o) + ",1,1,1] " + numbers(random, 3 * v.o) + ") }";
}

// Taps in 1 to 5 frames, padding on any side, few and many frames, videos, sizes that tiles hang over. Small caches cut the
// frames in blocks.
TEST(Winograd, VideosOfEveryShape) {
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    const auto pick = [&](int64_t low, int64_t high) {
      return low + static_cast<int64_t>(random.below(static_cast<uint64_t>(high - low + 1)));
    };
    Video v;
    v.n = pick(1, 2), v.c = pick(16, 18), v.o = pick(0, 1) == 0 ? 16 : 35;
    v.taps = std::array<int64_t, 4>{1, 2, 3, 5}[random.below(4)];
    v.dilation = pick(1, 2);
    v.h = pick(4, 9), v.w = pick(4, 11);
    for (int64_t& p : v.pads) p = pick(0, 2);
    const int64_t reach = (v.taps - 1) * v.dilation + 1;
    v.d = std::max(pick(1, 9), reach - v.pads[0] - v.pads[3]);
    for (const size_t i : {size_t{1}, size_t{2}}) v.pads[i] = v.pads[i + 3] = 1;
    const std::string text = video(v, random);
    EXPECT_NE(steps(text, true), steps(text, false)) << text.substr(0, 80);
    expect_filters(text, 2e-5);
    expect_filters(text, 2e-5, kSmallCache);
  }
}

// The same with products on tile registers, by name; where there are none, the label fits nothing.
TEST(Winograd, VideosInTwoParts) {
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    Video v;
    v.n = random.between(1, 2), v.c = std::array<int64_t, 3>{16, 33, 100}[random.below(3)];
    v.o = std::array<int64_t, 3>{16, 32, 45}[random.below(3)];
    v.taps = random.between(1, 3), v.d = random.between(3, 6);
    v.h = random.between(4, 9), v.w = random.between(4, 11);
    const ir::Graph plain = graph_of(video(v, random));
    compile::KernelCache cache;
    compile::LowerOptions options;
    options.target = *codegen::host_target();
    options.weights = false;
    options.cache = &cache;
    const auto space = compile::LabelSpace::make(plain, ops::table(), options);
    ASSERT_TRUE(space.ok());
    // Tiles of 2x2 and of 2x4 outputs: the larger ones round more.
    const int64_t outputs = seed % 2 == 0 ? 2 : 4;
    const double tolerance = outputs == 2 ? 2e-5 : 3.5e-5;
    const compile::Method filtering(compile::Algorithm::SplitFiltering, {0, 0, 0, outputs});
    const std::vector<compile::Method> methods(space->factors().size(), filtering);
    const compile::Labels labels = space->labels(std::vector<size_t>(space->variables().size()), methods);
    auto labelled = driver::with_labels(plain, print(labels, options.target));
    ASSERT_TRUE(labelled.ok());
    compile::ExecutableOptions built;
    built.lower.target = options.target;
    const std::vector<Tensor> inputs = random_inputs(plain, seed);
    const auto want = interp::run(plain, ops::table(), inputs, {});
    const auto made = compile::Executable::build(*labelled, ops::table(), built);
    ASSERT_TRUE(want.ok() && made.ok());
    auto runner = compile::Runner::make(*made, 2, ISO_POISON);
    const auto got = runner->run(inputs);
    ASSERT_TRUE(got.ok());
    double largest = 0;
    for (int64_t i = 0; i < (*want)[0].size(); ++i) largest = std::max(largest, std::abs((*want)[0].real(i)));
    for (int64_t i = 0; i < (*want)[0].size(); ++i)
      ASSERT_NEAR((*got)[0].real(i), (*want)[0].real(i), tolerance * largest) << i;
  }
}

TEST(Winograd, VideosWithManyTaps) {
  Random random(1);
  Video v;
  v.c = 70, v.o = 40, v.d = 3;  // taps transformed when they are needed
  expect_filters(video(v, random), 2e-5);
  v.c = 100, v.h = 5, v.taps = 2;  // several pieces of channels
  expect_filters(video(v, random), 2e-5, 256 << 10);
}

TEST(Winograd, VideosItLeavesAlone) {
  for (const char* attrs : {"{strides=[2,1,1], pads=[1,1,1,1,1,1]}", "{strides=[1,2,2], pads=[1,1,1,1,1,1]}",
                            "{dilations=[1,2,2], pads=[1,2,2,1,2,2]}"}) {
    Random random(1);
    const std::string text = video({}, random, attrs);
    EXPECT_EQ(steps(text, true), steps(text, false)) << attrs;
    expect_filters(text);
  }
  compile::ConvolutionShape s;
  s.taps_down = s.taps_across = 3, s.c = s.o = 16, s.oh = s.ow = 8, s.channels_together = true;
  EXPECT_TRUE(compile::filterable(s));
  s.step_frames = 2;
  EXPECT_STREQ(compile::filterable(s).reason(),
               "positions or taps are more than one pixel apart, or positions more than one frame");
}

std::string over_groups(int64_t n, int64_t groups, int64_t c, int64_t o, int64_t h, int64_t w, const std::string& pads,
                        Random& random) {
  const int64_t in = groups * c, out = groups * o;
  return fmt::format(
      "graph @g(%z: f32[{},{},{},{}]) {{\n%x = relu(conv(%z, const f32[{},{},1,1] {}))\n"
      "%y = relu(conv(%x, const f32[{},{},3,3] {}, const f32[{}] splat(0.5)){{group={}, pads={}}})\n"
      "return conv(%y, const f32[3,{},1,1] {}) }}",
      n, in, h, w, in, in, numbers(random, in * in), out, c, numbers(random, out * c * 9), out, groups, pads, out,
      numbers(random, 3 * out));
}

// Groups of channels that fill vectors and of those that do not, with fewer and more outputs, several images and tiles that hang over;
// taps transformed when the model is compiled and, where the second cache is small, by the task that needs them.
TEST(Winograd, Groups) {
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    const int64_t c = std::array<int64_t, 4>{32, 48, 35, 64}[random.below(4)];
    const int64_t o = std::array<int64_t, 4>{32, 37, 48, 80}[random.below(4)];
    const auto side = [&] { return random.between(15, 21); };
    const std::string pads = std::array<const char*, 3>{"[1,1,1,1]", "[0,0,0,0]", "[1,0,2,1]"}[random.below(3)];
    const std::string text =
        over_groups(random.between(1, 2), random.between(2, 3), c, o, side(), side(), pads, random);
    EXPECT_NE(steps(text, true), steps(text, false)) << text.substr(0, 80);
    expect_filters(text, 2e-5);
    expect_filters(text, 2e-5, kSmallCache);
  }
}

// Of few channels each transforms weigh more than products, and so they do where a group has few tiles.
TEST(Winograd, GroupsItLeavesAlone) {
  Random random(1);
  for (const auto& [groups, c, side] : {std::array<int64_t, 3>{8, 16, 14}, {2, 64, 7}, {4, 8, 28}}) {
    const std::string text = over_groups(1, groups, c, c, side, side, "[1,1,1,1]", random);
    EXPECT_EQ(steps(text, true), steps(text, false)) << c;
  }
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

// A dilated convolution as one of four images, each of every second pixel: the images' number is one dim for the convolution and two
// for what moves the pixels.
TEST(Winograd, ImagesOfEverySecondPixel) {
  const std::string text = R"(
graph @g(%x: f32[1,32,28,20], %b: f32[1]) {
  %v = conv(mul(%x, %b), const f32[32,32,3,3] splat(0.01)){pads=[1,1,1,1]}
  %apart = transpose(reshape(%v, const i64[6] [1,32,14,2,10,2])){perm=[3,5,0,1,2,4]}
  %y = conv(reshape(%apart, const i64[4] [4,32,14,10]), const f32[32,32,3,3] splat(0.02), const f32[32] splat(0.3)){pads=[1,1,1,1]}
  %together = transpose(reshape(%y, const i64[6] [2,2,1,32,14,10])){perm=[2,3,4,0,5,1]}
  return conv(relu(reshape(%together, const i64[4] [1,32,28,20])), const f32[16,32,1,1] splat(0.1))
})";
  expect_filters(text, 2e-5);
  expect_compiles(text, 1e-4);
  // Both convolutions of 3x3 taps are filtered.
  const std::string alone = R"(
graph @g(%x: f32[1,32,28,20]) {
  %apart = transpose(reshape(relu(%x), const i64[6] [1,32,14,2,10,2])){perm=[3,5,0,1,2,4]}
  return conv(reshape(%apart, const i64[4] [4,32,14,10]), const f32[32,32,3,3] splat(0.02)){pads=[1,1,1,1]}
})";
  EXPECT_NE(steps(alone, true), steps(alone, false));
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

// Parts of a value that other parts lie beside: its channels begin where no vector does.
TEST(Winograd, PartsOfTheChannels) {
  for (const char* taps : {"17,3,3", "17,1,7"}) {
    Random random(7);
    const std::string pads = taps[3] == '3' ? "{pads=[1,1,1,1]}" : "{pads=[0,3,0,3]}";
    const std::string text =
        "graph @g(%z: f32[2,5,9,11]) { %m = conv(%z, const f32[40,5,1,1] " + numbers(random, 40 * 5) +
        ") %p, %q, %r = split(%m, const i64[3] [9,17,14]){axis=1} " + "%y = relu(conv(%q, const f32[16," + taps + "] " +
        numbers(random, 16 * 17 * (taps[3] == '3' ? 9 : 7)) + ")" + pads + ") return conv(%y, const f32[3,16,1,1] " +
        numbers(random, 3 * 16) + "), reduce_mean(%p, const i64[2] [2,3]), reduce_mean(%r, const i64[2] [2,3]) }";
    EXPECT_NE(steps(text, true), steps(text, false)) << taps;
    expect_filters(text, 2e-5);
    expect_compiles(text, kChainTolerance);
  }
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
