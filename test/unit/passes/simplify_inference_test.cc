#include "test/unit/passes/before_after.h"

namespace isomer::testing {
namespace {

TEST(SimplifyInference, IdentitiesAndDropoutsGo) {
  expect_pass("simplify_inference", R"((%x: f32[2]) {
    return "y"=relu(dropout(identity(%x), const f32[] 0.5, const bool[] false))
  })",
              "(%x: f32[2]) { return \"y\"=relu(%x) }");
  expect_pass("simplify_inference", "(%x: f32[2]) { return \"y\"=dropout(%x, const f32[] 0, const bool[] true) }",
              "(%x: f32[2]) { return \"y\"=%x }");
}

TEST(SimplifyInference, ADropoutThatMayTrainStays) {
  expect_untouched("simplify_inference",
                   "(%x: f32[2], %t: bool[]) { return \"y\"=relu(dropout(%x, const f32[] 0.5, %t)) }");
}

TEST(SimplifyInference, AMaskThatIsReadKeepsItsDropout) {
  expect_pass("simplify_inference", "(%x: f32[2]) { %y, %m = dropout(%x) return \"y\"=relu(%y), \"m\"=%m }",
              "(%x: f32[2]) { %y, %m = dropout(%x) return \"y\"=relu(%x), \"m\"=%m }");
}

TEST(SimplifyInference, BatchNormalisationByItsOwnEpsilon) {
  // scale / sqrt(variance + epsilon): 1/sqrt(3+1) = 0.5, 2/sqrt(0+1) = 2; shift: b - mean * scale.
  expect_pass("simplify_inference", R"((%x: f32[2,2,3]) {
    return "y"=batch_normalization(%x, const f32[2] [1,2], const f32[2] [1,-1], const f32[2] [2,0.5], const f32[2] [3,0])
               {epsilon=1.0}
  })",
              R"((%x: f32[2,2,3]) {
    return "y"=add(mul(%x, const f32[2,1] [0.5,2]), const f32[2,1] [0,-2])
  })");
}

TEST(SimplifyInference, TrainingAndComputedStatisticsStay) {
  expect_untouched("simplify_inference", R"((%x: f32[2,2,3]) {
    %c = const f32[2] [1,2]
    return "y"=batch_normalization(%x, %c, %c, %c, %c){training_mode=1}
  })");
  expect_untouched("simplify_inference", R"((%x: f32[2,2,3], %m: f32[2]) {
    %c = const f32[2] [1,2]
    return "y"=batch_normalization(%x, %c, %c, %m, %c)
  })");
}

}  // namespace
}  // namespace isomer::testing
