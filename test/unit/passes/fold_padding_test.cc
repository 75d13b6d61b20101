#include "test/unit/passes/before_after.h"

namespace isomer::testing {
namespace {

TEST(FoldPadding, IntoAConvolution) {
  expect_pass("fold_padding", R"((%x: f32[1,1,4,4]) {
    return "y"=conv(pad(%x, [0,0,1,2,0,0,3,0]), const f32[1,1,2,2] [1,2,3,4]){pads=[0,1,0,1]}
  })",
              R"((%x: f32[1,1,4,4]) {
    return "y"=conv(%x, const f32[1,1,2,2] [1,2,3,4]){pads=[1,3,3,1]}
  })");
  expect_pass("fold_padding", R"((%x: f32[1,1,4]) {
    return "y"=conv(pad(%x, [1,2], const f32[] 0, [-1]), const f32[1,1,2] [1,2]){auto_pad="VALID"}
  })",
              "(%x: f32[1,1,4]) { return \"y\"=conv(%x, const f32[1,1,2] [1,2]){pads=[1,2]} }");
}

TEST(FoldPadding, IntoPools) {
  expect_pass("fold_padding", R"((%x: f32[1,1,4]) {
    return "y"=max_pool(pad(%x, [0,0,1,0,0,1], const f32[] -inf)){kernel_shape=[2]}
  })",
              "(%x: f32[1,1,4]) { return \"y\"=max_pool(%x){kernel_shape=[2], pads=[1,1]} }");
  expect_pass("fold_padding", R"((%x: f32[1,1,4]) {
    return "y"=average_pool(pad(%x, [0,0,1,0,0,1])){kernel_shape=[2]}
  })",
              "(%x: f32[1,1,4]) { return \"y\"=average_pool(%x){kernel_shape=[2], pads=[1,1], count_include_pad=1} }");
}

TEST(FoldPadding, FalseTwins) {
  for (const char* body :
       {"conv(pad(%x, [0,0,1,0,0,1], 1), const f32[1,2,2] splat(1))",              // not zero
        "conv(pad(%x, [0,0,1,0,0,1]){mode=\"edge\"}, const f32[1,2,2] splat(1))",  // no constant
        "conv(pad(%x, [1,0,1,0,0,1]), const f32[1,2,2] splat(1))",                 // the batch too
        "conv(pad(%x, [0,1,1,0,0,1]), const f32[1,3,2] splat(1))",                 // the channels too
        "conv(pad(%x, [0,0,-1,0,0,1]), const f32[1,2,2] splat(1))",                // takes away
        "conv(pad(%x, [0,0,1,0,0,1]), const f32[1,2,2] splat(1)){auto_pad=\"SAME_UPPER\", strides=[2]}",
        "max_pool(pad(%x, [0,0,1,0,0,1])){kernel_shape=[2]}",  // zero may be the largest
        "max_pool(relu(pad(%x, [0,0,1,0,0,1]))){kernel_shape=[2]}",
        "max_pool(pad(%x, [0,0,1,0,0,1], const f32[] -inf)){kernel_shape=[2], ceil_mode=1, strides=[2]}",
        "max_pool(pad(%x, [0,0,2,0,0,2], const f32[] -inf)){kernel_shape=[2]}",  // windows of padding alone
        "average_pool(pad(%x, [0,0,1,0,0,1])){kernel_shape=[3], pads=[1,1]}",    // own padding is not counted
        "average_pool(pad(%x, [0,0,1,0,0,1], 1)){kernel_shape=[2]}"})
    expect_untouched("fold_padding", "(%x: f32[1,2,4]) { return \"y\"=" + std::string(body) + " }");
  // Positions count the padding.
  expect_untouched("fold_padding", R"((%x: f32[1,1,4]) {
    %v, %i = max_pool(pad(%x, [0,0,1,0,0,1], const f32[] -inf)){kernel_shape=[2]}
    return "y"=%v, "i"=%i
  })");
  // Only a run tells the padding.
  expect_untouched("fold_padding", R"((%x: f32[1,1,4], %p: i64[6]) {
    return "y"=conv(pad(%x, %p), const f32[1,1,1] [1])
  })");
}

}  // namespace
}  // namespace isomer::testing
