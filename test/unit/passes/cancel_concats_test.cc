#include "test/unit/passes/before_after.h"

namespace isomer::testing {
namespace {

TEST(CancelConcats, AConcatOfConcatsIsOne) {
  expect_pass("cancel_concats",
              "(%a: f32[2,3], %b: f32[1,3], %c: f32[4,3]) { %h = concat(%a, %b){axis=0} "
              "return \"y\"=concat(%c, concat(%h, %a){axis=-2}){axis=0} }",
              "(%a: f32[2,3], %b: f32[1,3], %c: f32[4,3]) { return \"y\"=concat(%c, %a, %b, %a){axis=0} }");
  expect_pass("cancel_concats",
              "(%a: f32[N,3], %b: f32[M,3]) { return \"y\"=concat(concat(%a, %b){axis=0}, %a){axis=0} }",
              "(%a: f32[N,3], %b: f32[M,3]) { return \"y\"=concat(%a, %b, %a){axis=0} }");
}

TEST(CancelConcats, PartsPutTogetherAgainAreTheValue) {
  expect_pass("cancel_concats",
              "(%x: f32[2,6]) { %a, %b = split(%x, [2,4]){axis=1} return \"y\"=relu(concat(%a, %b){axis=1}) }",
              "(%x: f32[2,6]) { return \"y\"=relu(%x) }");
  expect_pass("cancel_concats",
              "(%x: f32[2,6], %z: f32[2,1]) { %a, %b = split(%x, [2,4]){axis=1} "
              "return \"y\"=concat(%z, %a, %b, %a){axis=1}, \"a\"=%a }",
              "(%x: f32[2,6], %z: f32[2,1]) { %a, %b = split(%x, [2,4]){axis=1} "
              "return \"y\"=concat(%z, %x, %a){axis=1}, \"a\"=%a }");
}

// As a recurrent network takes its steps out of a sequence, and a merged product puts them together.
TEST(CancelConcats, ViewsOfPartsThatLieOneAfterTheOtherToo) {
  expect_pass("cancel_concats",
              "(%x: f32[3,1,4]) { %a, %b, %c = split(%x){axis=0, num_outputs=3} "
              "return \"y\"=relu(concat(concat(reshape(%a, [1,4]), reshape(%b, [1,4])){axis=0}, "
              "reshape(%c, [1,4])){axis=0}) }",
              "(%x: f32[3,1,4]) { return \"y\"=relu(reshape(%x, [3,4])) }");
  expect_pass("cancel_concats",
              "(%x: f32[2,6]) { %a, %b = split(%x){axis=0, num_outputs=2} "
              "return \"y\"=relu(concat(reshape(%a, [3,2]), reshape(%b, [3,2])){axis=0}) }",
              "(%x: f32[2,6]) { return \"y\"=relu(reshape(%x, [6,2])) }");
}

TEST(CancelConcats, FalseTwins) {
  for (const char* other :
       {// another axis,
        "(%a: f32[2,2], %b: f32[2,2], %c: f32[2,4]) { return \"y\"=concat(concat(%a, %b){axis=1}, %c){axis=0} }",
        "(%x: f32[2,4]) { %a, %b = split(%x){axis=1, num_outputs=2} return \"y\"=concat(%a, %b){axis=0} }",
        // another order, or not all of them,
        "(%x: f32[4]) { %a, %b = split(%x){axis=0, num_outputs=2} return \"y\"=concat(%b, %a){axis=0} }",
        "(%x: f32[6]) { %a, %b, %c = split(%x){axis=0, num_outputs=3} return \"y\"=concat(%a, %b){axis=0} }",
        "(%x: f32[6]) { %a, %b, %c = split(%x){axis=0, num_outputs=3} return \"y\"=concat(%b, %c){axis=0} }",
        "(%x: f32[4], %z: f32[4]) { %a, %b = split(%x){axis=0, num_outputs=2} "
        "%c, %d = split(%z){axis=0, num_outputs=2} return \"y\"=concat(%a, %d){axis=0} }",
        // a whole that others read,
        "(%a: f32[2], %b: f32[2]) { %h = concat(%a, %b){axis=0} return \"y\"=concat(%h, %a){axis=0}, \"h\"=%h }",
        // parts that lie between each other, before or after the view.
        "(%x: f32[2,4]) { %a, %b = split(%x){axis=1, num_outputs=2} "
        "return \"y\"=concat(reshape(%a, [4]), reshape(%b, [4])){axis=0} }",
        "(%x: f32[2,4]) { %a, %b = split(%x){axis=0, num_outputs=2} "
        "return \"y\"=concat(reshape(%a, [2,2]), reshape(%b, [2,2])){axis=1} }"})
    expect_untouched("cancel_concats", other);
}

}  // namespace
}  // namespace isomer::testing
