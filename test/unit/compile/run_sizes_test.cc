// Results whose size data decides, in buffers of the most that they can be: the interpreter's results and sizes.
#include <fmt/format.h>

#include "test/unit/compile/compiled.h"

namespace isomer {
namespace {

compile::ExecutableOptions bounded() {
  compile::ExecutableOptions options;
  options.lower.bounded = true;
  return options;
}

void expect_bounded(const std::string& text, double tolerance = 1e-5) {
  expect_compiles(text, tolerance, bounded(), false);
}

// Some elements are zero, in no order.
const std::string kHoles = "%h = relu(round(mul(%x, const f32[] 3.0)))\n";

TEST(RunSizes, PositionsOfElements) {
  expect_bounded("graph @g(%x: f32[4,5,3]) { " + kHoles + " %n = non_zero(%h) return %n, transpose(%n) }", 0);
  expect_bounded("graph @g(%x: f32[50]) { %b = less(%x, const f32[] -0.9)\n return non_zero(%b) }", 0);
  expect_bounded("graph @g(%x: f32[3,2]) { %b = less(%x, const f32[] -9.0)\n return non_zero(%b) }", 0);
}

TEST(RunSizes, WhatFollowsReadsTheNumber) {
  expect_bounded("graph @g(%x: f32[6,5], %t: f32[6,3]) { " + kHoles + R"( %n = non_zero(%h)
      %r = gather(%n, const i64[] 0)
      %e = exp(gather(%t, %r))
      %s = reduce_sum(%e, const i64[1] [0]){keepdims=0}
      %m = reduce_mean(%e, const i64[1] [0])
      %a = arg_max(%e){axis=0}
      %c = concat(%e, %t, mul(%e, const f32[] 2.0)){axis=0}
      %d = cast(transpose(%c)){to=f64}
      %p = softmax(%e){axis=0}
      %u = unsqueeze(%e, const i64[1] [1])
      return %e, %s, %m, %a, %c, %d, %p, %u, sub(%e, %m) })");
}

TEST(RunSizes, SlicesWhereAConditionHolds) {
  for (const int axis : {0, 1, 2})
    expect_bounded(
        fmt::format("graph @g(%x: f32[7,7,7], %y: f32[7]) {{ %c = less(%y, const f32[] 0.3)\n"
                    "%k = compress(%x, %c){{axis={}}} return %k, reduce_max(%k, const i64[2] [0,1]), "
                    "relu(%k) }}",
                    axis));
  expect_bounded("graph @g(%x: f32[4,6], %y: f32[9]) { return compress(%x, less(%y, const f32[] 0.3)) }", 0);
}

TEST(RunSizes, BoxesOfADetector) {
  for (const char* most : {"const i64[] 3", "const i64[1] [100]", "const i64[] 0"})
    for (const int center : {0, 1})
      expect_bounded(fmt::format(
          R"(graph @g(%b: f32[2,40,4], %x: f32[2,3,40], %f: f32[2,40,5]) {{
          %s = sigmoid(mul(%x, const f32[] 4.0))
          %n = non_max_suppression(%b, %s, {}, const f32[] 0.2, const f32[] 0.4){{center_point_box={}}}
          %batch = gather(%n, const i64[] 0){{axis=1}}
          %box = gather(%n, const i64[] 2){{axis=1}}
          %boxes = gather(gather(%b, const i64[] 1), %box)
          %at = gather(%n, const i64[2] [0,2]){{axis=1}}
          %features = gather_nd(%f, %at)
          %score = gather_nd(%s, %n)
          return %n, %boxes, %features, %score, add(%boxes, const f32[] 1.0), %batch }})",
          most, center));
}

TEST(RunSizes, DistinctElementsAndSlices) {
  const std::string kFew = "%h = round(mul(%x, const f32[] 3.0))\n";
  for (const char* attrs : {"", "{sorted=0}"})
    for (const char* type : {"f32", "i64", "u8", "i16", "f16", "bool", "u64", "f64"})
      expect_bounded("graph @g(%x: f32[7,30]) { " + kFew +
                         fmt::format("%y, %first, %inverse, %counts = unique(cast(%h){{to={}}}){}\n"
                                     "return %y, %first, %inverse, %counts }}",
                                     type, attrs),
                     0);
  for (const int sorted : {0, 1})
    for (const int axis : {0, 1, -1})
      expect_bounded(
          "graph @g(%x: f32[3,20,2]) { " + kFew +
              fmt::format("%y, %first, %inverse, %counts = unique(%h){{axis={}, sorted={}}}\n"
                          "return %y, %inverse, add(%y, const f32[] 1.0), gather(%h, %first){{axis={}}}, %counts }}",
                          axis, sorted, axis),
          0);
  // A number that is none is above all others, and equal to itself.
  expect_bounded("graph @g(%x: f32[40]) { " + kFew + R"(%y, %first, %inverse = unique(sqrt(%h)){sorted=0}
      return is_nan(%y), %first, %inverse })",
                 0);
  for (const char* dims : {"1", "0", "4,0", "", "30000"})
    expect_bounded(fmt::format("graph @g(%x: f32[{}]) {{ return unique(%x) }}", dims), 0);
}

TEST(RunSizes, WhatHasNoBoundIsRefusedByName) {
  const ir::Graph g = graph_of("graph @g(%x: f32[4]) { %n = non_zero(%x) %m = non_zero(%n) return %m }");
  compile::ExecutableOptions options = bounded();
  options.lower.target = *codegen::host_target();
  const auto made = compile::Executable::build(g, ops::table(), options);
  ASSERT_FALSE(made.ok());
  EXPECT_NE(made.error().message.find("node m (non_zero)"), std::string::npos) << made.error().message;
  const ir::Graph many = graph_of("graph @g(%x: f32[4], %c: bool[9]) { return compress(%x, %c) }");
  EXPECT_FALSE(compile::Executable::build(many, ops::table(), options).ok());
  options.lower.bounded = false;
  EXPECT_FALSE(compile::Executable::build(g, ops::table(), options).ok());
}

}  // namespace
}  // namespace isomer
