#include "test/unit/passes/before_after.h"

namespace isomer::testing {
namespace {

std::string decomposed(const std::string& normal, const std::string& rest = "%n") {
  return R"((%x: f32[2,3,4]) {
    %d = sub(%x, reduce_mean(%x, [-1]))
    %v = reduce_mean(pow(%d, 2), [-1])
    %n = )" +
         normal + "\n return \"y\"=" + rest + " }";
}

TEST(RecogniseLayerNorm, WithScaleAndBias) {
  expect_pass(
      "recognise_layer_norm",
      decomposed("div(%d, sqrt(add(%v, 0.5)))", "add(mul(%n, const f32[4] [1,2,3,4]), const f32[1,1,4] [5,6,7,8])"),
      R"((%x: f32[2,3,4]) {
    return "y"=layer_normalization(%x, const f32[4] [1,2,3,4], const f32[4] [5,6,7,8]){epsilon=0.5}
  })");
}

TEST(RecogniseLayerNorm, InEveryForm) {
  const std::string plain =
      "(%x: f32[2,3,4]) { return \"y\"=layer_normalization(%x, const f32[4] [1,1,1,1]){epsilon=0.5} }";
  for (const char* normal :
       {"div(%d, sqrt(add(%v, 0.5)))", "mul(%d, reciprocal(sqrt(add(0.5, %v))))",
        "mul(div(1.0, sqrt(add(%v, 0.5))), %d)", "mul(%d, pow(add(%v, 0.5), -0.5))", "div(%d, pow(add(%v, 0.5), 0.5))"})
    expect_pass("recognise_layer_norm", decomposed(normal), plain);
  expect_pass("recognise_layer_norm", R"((%x: f32[2,3,4]) {
    %d = sub(%x, reduce_mean(%x, [1,2]))
    return "y"=div(%d, sqrt(add(reduce_mean(mul(%d, %d), [-1,-2]), 0.5)))
  })",
              R"((%x: f32[2,3,4]) {
    return "y"=layer_normalization(%x, const f32[3,4] splat(1)){axis=-2, epsilon=0.5}
  })");
}

TEST(RecogniseLayerNorm, FalseTwins) {
  const auto text = [](const std::string& mean, const std::string& square, const std::string& axes) {
    return "(%x: f32[2,3,4], %z: f32[2,3,4]) { %d = sub(%x, " + mean + ") return \"y\"=div(%d, sqrt(add(reduce_mean(" +
           square + ", " + axes + "), 0.5))) }";
  };
  expect_untouched("recognise_layer_norm", text("reduce_mean(%x, [-1])", "mul(%d, %d)", "[1]"));   // another axis
  expect_untouched("recognise_layer_norm", text("reduce_mean(%x, [1])", "mul(%d, %d)", "[1]"));    // not the last
  expect_untouched("recognise_layer_norm", text("reduce_mean(%z, [-1])", "mul(%d, %d)", "[-1]"));  // another mean
  expect_untouched("recognise_layer_norm", text("reduce_mean(%x, [-1])", "mul(%d, %x)", "[-1]"));  // no square
  expect_untouched("recognise_layer_norm", text("reduce_mean(%x, [-1])", "pow(%d, 3)", "[-1]"));   // a cube
  expect_untouched("recognise_layer_norm", text("reduce_max(%x, [-1])", "mul(%d, %d)", "[-1]"));   // no mean
}

TEST(RecogniseLayerNorm, OtherReadersAndOtherAxesKeepTheirProducts) {
  // A scale along another axis is none of the normalisation's.
  expect_untouched("recognise_layer_norm", R"((%x: f32[2,3,4]) {
    return "y"=mul(layer_normalization(%x, const f32[4] [1,1,1,1]), const f32[3,1] [1,2,3])
  })");
  expect_untouched("recognise_layer_norm", R"((%x: f32[2,3,4]) {
    %n = layer_normalization(%x, const f32[4] [1,1,1,1])
    return "y"=mul(%n, const f32[4] [1,2,3,4]), "n"=%n
  })");
  // It has a scale already, and a product after a bias cannot become one.
  expect_untouched("recognise_layer_norm", R"((%x: f32[2,3,4]) {
    return "y"=mul(layer_normalization(%x, const f32[4] [1,2,1,1], const f32[4] [1,1,1,1]), const f32[4] [1,2,3,4])
  })");
}

}  // namespace
}  // namespace isomer::testing
