#include "test/unit/passes/before_after.h"

namespace isomer::testing {
namespace {

TEST(FoldConstants, EvaluatesChainsOfConstants) {
  expect_pass("fold_constants",
              "(%x: f32[2]) { return \"y\"=add(%x, mul(exp(const f32[2] [0,0]), const f32[2] [2,3])) }",
              "(%x: f32[2]) { return \"y\"=add(%x, const f32[2] [2,3]) }");
}

TEST(FoldConstants, ShapeArithmeticVanishes) {
  expect_pass("fold_constants", R"((%x: f32[2,3,4]) {
    %s = shape(%x)
    %n = gather(%s, const i64[] 0){axis=0}
    %r = concat(unsqueeze(%n, [0]), [-1]){axis=0}
    return "y"=reshape(%x, %r)
  })",
              R"((%x: f32[2,3,4]) { return "y"=reshape(%x, [2,-1]) })");
}

TEST(FoldConstants, OneOpenSizeIsWhatTheOthersLeave) {
  expect_pass("fold_constants", R"((%x: f32[N,3,4]) {
    %s = shape(%x)
    %n = gather(%s, const i64[] 0){axis=0}
    %r = concat(unsqueeze(%n, [0]), [12]){axis=0}
    return "y"=reshape(%x, %r)
  })",
              R"((%x: f32[N,3,4]) { return "y"=reshape(%x, [0,12]) })");
}

TEST(FoldConstants, NeverBlowsAModelUp) {
  // 64 MiB from one number.
  expect_untouched("fold_constants", "(%x: f32[4096]) { return \"y\"=add(%x, expand(const f32[] 1, [4096,4096])) }");
  expect_untouched("fold_constants", "(%x: f32[4096]) { return \"y\"=add(%x, constant_of_shape([4096,4096])) }");
}

TEST(FoldConstants, DrawsAreNotConstants) {
  expect_untouched("fold_constants", "(%x: f32[2]) { return \"y\"=add(%x, random_normal_like(const f32[2] [1,2])) }");
}

TEST(FoldConstants, WhatCannotBeEvaluatedStays) {
  expect_untouched("fold_constants", "(%x: i64[2]) { return \"y\"=add(%x, div(const i64[] 1, const i64[] 0)) }");
}

TEST(FoldConstants, BytesOfQuantisedProductsStay) {
  const std::string weights = "dequantize_linear(const i8[2,2] [1,2,3,4], const f32[] 0.5)";
  expect_untouched("fold_constants",
                   "(%x: u8[2,2]) { return \"y\"=matmul(dequantize_linear(%x, const f32[] 0.1), " + weights + ") }");
  expect_pass("fold_constants", "(%x: f32[2,2]) { return \"y\"=matmul(%x, " + weights + ") }",
              "(%x: f32[2,2]) { return \"y\"=matmul(%x, const f32[2,2] [0.5,1,1.5,2]) }");
}

TEST(FoldConstants, NamesSurvive) {
  const ir::Graph g = graph_of("(%x: f32[2]) { %two = add(const f32[] 1, const f32[] 1) return \"y\"=mul(%x, %two) }");
  const passes::Result r = run_passes("fold_constants", g);
  bool found = false;
  for (const ir::Node& n : r.graph.nodes()) found |= n.op == &ir::const_op() && n.names[0] == "two";
  EXPECT_TRUE(found) << ir::print(r.graph);
}

}  // namespace
}  // namespace isomer::testing
