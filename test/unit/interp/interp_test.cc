#include "interp/interp.h"

#include <gtest/gtest.h>

#include "ops/table.h"

namespace isomer {
namespace {

TEST(Interp, RunsAMatrixProductWithBiasAndRelu) {
  ir::GraphBuilder b(ops::table(), "mlp");
  const ir::Value x = *b.input("x", {DType::F32, {Dim::symbol("N"), 2}, nullptr});
  const ir::Value w = b.constant(Tensor::of<double>(DType::F32, {2, 2}, {1, -2, 3, -4}), "w");
  const ir::Value h = *b.add1("matmul", {x, w});
  EXPECT_EQ(b.type(h).to_string(), "f32[N,2]");
  const ir::Value y = *b.add1("relu", {h});
  b.output("y", y);
  const ir::Graph g = *std::move(b).finish();
  const auto out = interp::run(g, ops::table(), {Tensor::of<double>(DType::F32, {1, 2}, {1, 1})});
  ASSERT_TRUE(out.ok()) << out.error().to_string();
  EXPECT_EQ(out->at(0).to_reals(), (std::vector<double>{4, 0}));
}

}  // namespace
}  // namespace isomer
