#include "test/unit/passes/before_after.h"

namespace isomer::testing {
namespace {

TEST(CancelReshapes, ChainsBecomeOneReshape) {
  expect_pass("cancel_reshapes", R"((%x: f32[2,3,4]) {
    return "y"=unsqueeze(flatten(reshape(%x, [6,4])){axis=0}, [2])
  })",
              "(%x: f32[2,3,4]) { return \"y\"=reshape(%x, [1,24,1]) }");
  expect_pass("cancel_reshapes", "(%x: f32[2,3]) { return \"y\"=relu(squeeze(unsqueeze(%x, [0]), [0])) }",
              "(%x: f32[2,3]) { return \"y\"=relu(%x) }");
  expect_pass("cancel_reshapes", "(%x: f32[N,3,4]) { return \"y\"=reshape(reshape(%x, [0,12]), [0,4,3]) }",
              "(%x: f32[N,3,4]) { return \"y\"=reshape(%x, [0,4,3]) }");
}

TEST(CancelReshapes, NodesThatGiveTheirInputBackGo) {
  const std::string after = "(%x: f32[2,3]) { return \"y\"=relu(%x) }";
  for (const char* same : {"reshape(%x, [2,-1])", "expand(%x, [1,3])", "tile(%x, [1,1])", "concat(%x){axis=1}",
                           "slice(%x, [0,0], [9,9])", "pad(%x, [0,0,0,0])", "max(%x)", "flatten(%x)"})
    expect_pass("cancel_reshapes", "(%x: f32[2,3]) { return \"y\"=relu(" + std::string(same) + ") }", after);
}

TEST(CancelReshapes, MovesBelowElementwiseNodes) {
  expect_pass("cancel_reshapes", R"((%x: f32[2,3,4]) {
    return "y"=reshape(mul(relu(reshape(%x, [6,4])), const f32[] 2), [2,3,4])
  })",
              "(%x: f32[2,3,4]) { return \"y\"=mul(relu(%x), const f32[] 2) }");
  expect_pass("cancel_reshapes", R"((%x: f32[2,6], %z: f32[2,6]) {
    return "y"=add(reshape(%x, [3,4]), reshape(%z, [3,4]))
  })",
              "(%x: f32[2,6], %z: f32[2,6]) { return \"y\"=reshape(add(%x, %z), [3,4]) }");
}

TEST(CancelReshapes, FalseTwins) {
  expect_untouched("cancel_reshapes", "(%x: f32[2,3]) { return \"y\"=slice(%x, [-1], [-9], [0], [-1]) }");  // reversed
  expect_untouched("cancel_reshapes", "(%x: f32[3]) { return \"y\"=pad(%x, [1,-1]) }");                     // shifted
  expect_untouched("cancel_reshapes", "(%x: f32[2,1]) { return \"y\"=expand(%x, [2,3]) }");
  // Softmax sees the shape.
  expect_untouched("cancel_reshapes", R"((%x: f32[2,6]) {
    return "y"=reshape(softmax(reshape(%x, [3,4])), [2,6])
  })");
  // The vector broadcasts along an axis that is not there before.
  expect_untouched("cancel_reshapes", R"((%x: f32[2,6]) {
    return "y"=reshape(add(reshape(%x, [3,4]), const f32[4] [1,2,3,4]), [2,6])
  })");
  // On a vector a transpose does nothing, on the matrix it does.
  expect_untouched("cancel_reshapes", "(%x: f32[2,3]) { return \"y\"=reshape(transpose(reshape(%x, [6])), [1,6]) }");
  expect_untouched("cancel_reshapes", R"((%x: f32[2,6], %z: f32[6,2]) {
    return "y"=add(reshape(%x, [3,4]), reshape(%z, [3,4]))
  })");
}

}  // namespace
}  // namespace isomer::testing
