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

// y = (x * a + b) - x with numbers that f32 cannot add without loss.
ir::Graph lossy_graph() {
  ir::GraphBuilder b(ops::table(), "lossy");
  const ir::Value x = *b.input("x", {DType::F32, {2}, nullptr});
  const ir::Value tiny = b.constant(Tensor::of<double>(DType::F32, {}, {0x1p-20}), "tiny");
  const ir::Value sum = *b.add1("add", {x, tiny});
  b.output("y", *b.add1("sub", {sum, x}));
  b.output("sum", sum);
  return *std::move(b).finish();
}

TEST(Interp, WideKeepsDoublesBetweenOperators) {
  const ir::Graph g = lossy_graph();
  const std::vector<Tensor> inputs = {Tensor::of<double>(DType::F32, {2}, {16, 0.5})};
  const auto narrow = interp::run(g, ops::table(), inputs);
  ASSERT_TRUE(narrow.ok());
  EXPECT_EQ((*narrow)[0].dtype(), DType::F32);
  EXPECT_EQ((*narrow)[0].to_reals(), (std::vector<double>{0, 0x1p-20}));
  interp::Options options;
  options.wide = true;
  const auto wide = interp::run(g, ops::table(), inputs, options);
  ASSERT_TRUE(wide.ok()) << wide.error().to_string();
  EXPECT_EQ((*wide)[0].dtype(), DType::F64);
  EXPECT_EQ((*wide)[0].to_reals(), (std::vector<double>{0x1p-20, 0x1p-20}));
  EXPECT_EQ((*wide)[1].to_reals(), (std::vector<double>{16 + 0x1p-20, 0.5 + 0x1p-20}));
  // A value that is wide already is taken as it is.
  const auto given = interp::run(g, ops::table(), {Tensor::of<double>(DType::F64, {2}, {0x1.00000001p0, 1})}, options);
  ASSERT_TRUE(given.ok()) << given.error().to_string();
  EXPECT_EQ((*given)[1].to_reals()[0], 0x1.00000001p0 + 0x1p-20);
  EXPECT_FALSE(interp::run(g, ops::table(), {Tensor::of<double>(DType::F64, {2}, {1, 1})}).ok());
}

TEST(Interp, WideGivesKernelsAndCastsTheDeclaredType) {
  ir::GraphBuilder b(ops::table(), "kernels");
  const ir::Value x = *b.input("x", {DType::F32, {3}, nullptr});
  const ir::Value tiny = b.constant(Tensor::of<double>(DType::F32, {}, {0x1p-40}), "tiny");
  const ir::Value sum = *b.add1("add", {x, tiny});
  const ir::Value k = b.constant(Tensor::of<int64_t>(DType::I64, {1}, {1}), "k");
  const auto top = *b.add("top_k", {sum, k});
  const ir::Value where = *b.add1("non_zero", {*b.add1("sub", {sum, x})});
  b.output("top", top[0]);
  b.output("index", top[1]);
  b.output("where", where);
  ir::Attrs half;
  half.set("to", DType::F16);
  b.output("cast", *b.add1("cast", {sum}, half));
  const ir::Graph g = *std::move(b).finish();
  interp::Options options;
  options.wide = true;
  const auto out = interp::run(g, ops::table(), {Tensor::of<double>(DType::F32, {3}, {1, 3, 2})}, options);
  ASSERT_TRUE(out.ok()) << out.error().to_string();
  EXPECT_EQ((*out)[0].dtype(), DType::F64);
  EXPECT_EQ((*out)[0].to_reals(), (std::vector<double>{3}));
  EXPECT_EQ((*out)[1].to_ints(), (std::vector<int64_t>{1}));
  EXPECT_EQ((*out)[2].dims(), (std::vector<int64_t>{1, 3}));  // the difference is not rounded away before the kernel
  EXPECT_EQ((*out)[3].dtype(), DType::F16);
}

TEST(Interp, TellsItsProgressAtTheTopLevelOnly) {
  const ir::Graph g = lossy_graph();
  std::vector<std::pair<size_t, size_t>> told;
  interp::Options options;
  options.progress = [&](size_t done, size_t total) { told.emplace_back(done, total); };
  ASSERT_TRUE(interp::run(g, ops::table(), {Tensor::of<double>(DType::F32, {2}, {1, 2})}, options).ok());
  EXPECT_EQ(told, (std::vector<std::pair<size_t, size_t>>{{1, 2}, {2, 2}}));
}

TEST(Interp, ReportsAFailureInANodeWithoutResults) {
  ir::GraphBuilder b(ops::table(), "g");
  const ir::Value x = *b.input("x", {DType::F32, {2}, nullptr});
  ASSERT_TRUE(b.add("opaque", {x}, {{"op_type", std::string("Frobnicate")}}).ok());
  b.output("y", x);
  const auto out = interp::run(*std::move(b).finish(), ops::table(), {Tensor(DType::F32, {2})});
  ASSERT_FALSE(out.ok());
  EXPECT_EQ(out.error().code, "E-unsupported");
}

}  // namespace
}  // namespace isomer
