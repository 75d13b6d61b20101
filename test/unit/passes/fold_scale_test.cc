#include "test/unit/passes/before_after.h"

namespace isomer::testing {
namespace {

TEST(FoldScale, BatchNormalisationIntoTheConvolutionBeforeIt) {
  expect_pass("fold_scale", R"((%x: f32[1,1,3]) {
    %h = conv(%x, const f32[2,1,2] [1,2,3,4], const f32[2] [1,1]){pads=[1,1]}
    return "y"=batch_normalization(%h, const f32[2] [1,2], const f32[2] [1,-1], const f32[2] [2,0.5], const f32[2] [3,0]){epsilon=1.0}
  })",
              R"((%x: f32[1,1,3]) {
    return "y"=conv(%x, const f32[2,1,2] [0.5,1,6,8], const f32[2] [0.5,0]){pads=[1,1]}
  })");
}

TEST(FoldScale, GroupsAndDepthwise) {
  expect_pass("fold_scale", R"((%x: f32[1,4,3]) {
    %h = conv(%x, const f32[4,1,1] [1,2,3,4]){group=4}
    return "y"=add(mul(%h, const f32[4,1] [2,3,4,5]), const f32[1,4,1] [1,2,3,4])
  })",
              R"((%x: f32[1,4,3]) {
    return "y"=conv(%x, const f32[4,1,1] [2,6,12,20], const f32[4] [1,2,3,4]){group=4}
  })");
  // Into the consumer: input channel 2 * group + i of output o.
  expect_pass("fold_scale", R"((%x: f32[1,4,3]) {
    return "y"=conv(mul(%x, const f32[4,1] [2,3,4,5]), const f32[2,2,1] [1,10,100,1000]){group=2, pads=[1,1]}
  })",
              R"((%x: f32[1,4,3]) {
    return "y"=conv(%x, const f32[2,2,1] [2,30,400,5000]){group=2, pads=[1,1]}
  })");
}

TEST(FoldScale, TransposedConvolution) {
  expect_pass("fold_scale", R"((%x: f32[1,2,3]) {
    return "y"=mul(conv_transpose(%x, const f32[2,2,1] [1,2,3,4]){group=2}, const f32[4,1] [1,10,100,1000])
  })",
              R"((%x: f32[1,2,3]) {
    return "y"=conv_transpose(%x, const f32[2,2,1] [1,20,300,4000]){group=2}
  })");
  expect_pass("fold_scale", R"((%x: f32[1,2,3]) {
    return "y"=conv_transpose(mul(%x, const f32[2,1] [2,3]), const f32[2,1,2] [1,2,3,4])
  })",
              R"((%x: f32[1,2,3]) {
    return "y"=conv_transpose(%x, const f32[2,1,2] [2,4,9,12])
  })");
}

TEST(FoldScale, MatrixProducts) {
  expect_pass("fold_scale", R"((%x: f32[3,2]) {
    return "y"=div(matmul(%x, const f32[2,2] [1,2,3,4]), const f32[2] [2,4])
  })",
              "(%x: f32[3,2]) { return \"y\"=matmul(%x, const f32[2,2] [0.5,0.5,1.5,1]) }");
  expect_pass("fold_scale", R"((%x: f32[3,2]) {
    return "y"=sub(const f32[] 1, gemm(%x, const f32[2,2] [1,2,3,4], const f32[2] [5,6]){transB=1, alpha=0.5, beta=2.0})
  })",
              R"((%x: f32[3,2]) {
    return "y"=gemm(%x, const f32[2,2] [-1,-2,-3,-4], const f32[2] [-9,-11]){transB=1, alpha=0.5}
  })");
  expect_pass("fold_scale", R"((%x: f32[3,2]) {
    return "y"=gemm(add(mul(%x, const f32[2] [2,3]), const f32[2] [1,-1]), const f32[2,2] [1,2,3,4]){alpha=2.0}
  })",
              R"((%x: f32[3,2]) {
    return "y"=gemm(%x, const f32[2,2] [2,4,9,12], const f32[2] [-4,-4]){alpha=2.0}
  })");
}

TEST(FoldScale, AShiftDoesNotPassPadding) {
  expect_untouched("fold_scale", R"((%x: f32[1,1,3]) {
    return "y"=conv(add(%x, const f32[] 2), const f32[1,1,2] [1,2]){pads=[1,1]}
  })");
  expect_untouched("fold_scale", R"((%x: f32[1,1,3]) {
    return "y"=conv(add(%x, const f32[] 2), const f32[1,1,2] [1,2]){auto_pad="SAME_UPPER"}
  })");
  expect_untouched("fold_scale", R"((%x: f32[1,1,3]) {
    return "y"=conv_transpose(add(%x, const f32[] 2), const f32[1,1,2] [1,2])
  })");
  expect_pass("fold_scale", R"((%x: f32[1,1,3]) {
    return "y"=conv(add(%x, const f32[] 2), const f32[1,1,2] [1,2])
  })",
              "(%x: f32[1,1,3]) { return \"y\"=conv(%x, const f32[1,1,2] [1,2], const f32[1] [6]) }");
}

TEST(FoldScale, FalseTwins) {
  // Along another axis than the channels.
  expect_untouched("fold_scale", R"((%x: f32[1,2,2]) {
    return "y"=mul(conv(%x, const f32[2,2,1] [1,2,3,4]), const f32[2] [2,3])
  })");
  // The unscaled value is read too.
  expect_untouched("fold_scale", R"((%x: f32[1,2,2]) {
    %h = conv(%x, const f32[2,2,1] [1,2,3,4])
    return "y"=mul(%h, const f32[] 2), "h"=%h
  })");
  // Another reader needs the scaled value.
  expect_untouched("fold_scale", R"((%x: f32[1,2,2]) {
    %h = mul(%x, const f32[] 2)
    return "y"=conv(%h, const f32[2,2,1] [1,2,3,4]), "z"=relu(%h)
  })");
  // The constant makes the value larger.
  expect_untouched("fold_scale", R"((%x: f32[1,1,2]) {
    return "y"=mul(conv(%x, const f32[1,1,1] [1]), const f32[2,1] [2,3])
  })");
  // Not constant.
  expect_untouched("fold_scale", R"((%x: f32[1,2,2], %s: f32[2,1]) {
    return "y"=mul(conv(%x, const f32[2,2,1] [1,2,3,4]), %s)
  })");
  // c / x is no scale.
  expect_untouched("fold_scale", R"((%x: f32[1,2,2]) {
    return "y"=div(const f32[] 2, conv(%x, const f32[2,2,1] [1,2,3,4]))
  })");
  // A bias by rows.
  expect_untouched("fold_scale", R"((%x: f32[2,2]) {
    return "y"=mul(gemm(%x, const f32[2,2] [1,2,3,4], const f32[2,1] [1,2]), const f32[2] [2,3])
  })");
  // Weights that overflow.
  expect_untouched("fold_scale", R"((%x: f32[1,1,2]) {
    return "y"=mul(conv(%x, const f32[1,1,1] [1e30]), const f32[] 1e30)
  })");
}

TEST(FoldScale, SumsOfConstantsWithAProductStay) {
  expect_untouched("fold_scale",
                   "(%x: f32[3,2]) { return \"y\"=add(matmul(%x, const f32[2,2] [1,2,3,4]), const f32[2] [1,2]) }");
}

TEST(FoldScale, OriginsAreUnited) {
  const ir::Graph g = graph_of(R"((%x: f32[1,2,2]) {
    %h = conv(%x, const f32[2,2,1] [1,2,3,4]) @"Conv_0" from("Conv_0")
    %y = mul(%h, const f32[] 2) @"Mul_1" from("Mul_1")
    return "y"=%y
  })");
  const ir::Graph out = run_passes("fold_scale", g).graph;
  const ir::Node& n = out.node(out.outputs()[0].value.node);
  EXPECT_EQ(n.op->name, "conv");
  EXPECT_EQ(n.origin, (std::vector<std::string>{"Conv_0", "Mul_1"}));
  EXPECT_EQ(n.names[0], "y");
}

}  // namespace
}  // namespace isomer::testing
