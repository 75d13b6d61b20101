#include "test/unit/passes/before_after.h"

namespace isomer::testing {
namespace {

TEST(RecogniseGroupNorm, BetweenTwoReshapes) {
  expect_pass(
      "recognise_group_norm",
      "(%x: f32[2,4,3,2]) { %g = reshape(%x, [0,2,-1]) %n = instance_normalization(%g, const f32[2] [1,2], const "
      "f32[2] [0,3]){epsilon=0.01} return \"y\"=reshape(%n, [2,4,3,2]) }",
      "(%x: f32[2,4,3,2]) { return \"y\"=group_normalization(%x, const f32[4] [1,1,2,2], const f32[4] "
      "[0,0,3,3]){epsilon=0.01, num_groups=2} }");
  expect_pass("recognise_group_norm",
              "(%x: f32[1,4,6]) { %g = reshape(%x, [1,1,-1]) %n = instance_normalization(%g, const f32[1] [1], const "
              "f32[1] [0]) return \"y\"=reshape(%n, [1,4,6]) }",
              "(%x: f32[1,4,6]) { return \"y\"=group_normalization(%x, const f32[4] [1,1,1,1], const f32[4] "
              "[0,0,0,0]){num_groups=1} }");
}

TEST(RecogniseGroupNorm, FalseTwins) {
  // Another shape afterwards, groups that do not divide the channels, samples that are mixed, a norm that others read.
  for (const char* body :
       {"%g = reshape(%x, [2,2,-1]) %n = instance_normalization(%g, %s, %s) return \"y\"=reshape(%n, [2,2,12])",
        "%g = reshape(%x, [2,2,-1]) %n = instance_normalization(%g, %s, %s) return \"y\"=reshape(%n, [2,4,3,2])",
        "%g = reshape(%x, [1,2,-1]) %n = instance_normalization(%g, const f32[2] [1,1], const f32[2] [0,0]) return "
        "\"y\"=reshape(%n, [2,4,3,2])",
        "%g = reshape(%x, [2,3,-1]) %n = instance_normalization(%g, const f32[3] [1,1,1], const f32[3] [0,0,0]) return "
        "\"y\"=reshape(%n, [2,4,3,2])",
        "%g = reshape(%x, [2,2,-1]) %n = instance_normalization(%g, const f32[2] [1,1], const f32[2] [0,0]) return "
        "\"y\"=reshape(%n, [2,4,3,2]), %n"})
    expect_untouched("recognise_group_norm", "(%x: f32[2,4,3,2], %s: f32[2]) { " + std::string(body) + " }");
}

}  // namespace
}  // namespace isomer::testing
