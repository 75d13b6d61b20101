#include "interp/evaluate.h"

#include <gtest/gtest.h>

#include "ops/table.h"

namespace isomer::interp {
namespace {

using te::Expr;

Expected<std::vector<Tensor>> evaluate_on(const te::Program& p, const std::vector<Tensor>& inputs,
                                          const Options& options = {}) {
  std::vector<const Tensor*> pointers;
  for (const Tensor& t : inputs) pointers.push_back(&t);
  return evaluate(p, pointers, options);
}

// y[i] = x[index[i]]
te::Program gather(int64_t n) {
  te::Builder b;
  const te::Handle x = b.input("x", DType::F32, {3}), index = b.input("index", DType::I64, {n});
  const std::vector<Dim> dims = {n};
  return b.finish({b.map("y", DType::F32, dims, [&](auto i) { return x(index(i[0])); })});
}

TEST(Evaluate, ReadsAtDataAreCheckedAndNamed) {
  const Tensor x = Tensor::of<double>(DType::F32, {3}, {1, 2, 3});
  const auto good = evaluate_on(gather(2), {x, Tensor::ints({2, 0})});
  ASSERT_TRUE(good.ok());
  EXPECT_EQ((*good)[0].to_reals(), (std::vector<double>{3, 1}));
  const auto bad = evaluate_on(gather(2), {x, Tensor::ints({2, 7})});
  ASSERT_FALSE(bad.ok());
  EXPECT_EQ(bad.error().code, "E-index-range");
  EXPECT_EQ(bad.error().message, "index 7 is out of range for an axis of extent 3");
}

TEST(Evaluate, TheErrorDoesNotDependOnTheThreads) {
  std::vector<int64_t> index(100000, 1);
  index[99999] = -5;
  index[40000] = 9;
  const Tensor x = Tensor::of<double>(DType::F32, {3}, {1, 2, 3});
  for (int threads : {1, 2, 7}) {
    Options options;
    options.threads = threads;
    const auto r = evaluate_on(gather(100000), {x, Tensor::ints(index)}, options);
    ASSERT_FALSE(r.ok());
    EXPECT_EQ(r.error().message, "index 9 is out of range for an axis of extent 3");
  }
}

TEST(Evaluate, ADivisionByZeroIsADiagnosticOnlyWhereItIsMade) {
  te::Builder b;
  const te::Handle x = b.input("x", DType::I32, {4});
  const std::vector<Dim> dims = {4};
  const te::Handle guarded = b.map("g", DType::I32, dims, [&](auto i) {
    return te::select(te::ne(x(i[0]), Expr(0)), Expr::integer(DType::I32, 12) / x(i[0]), Expr(-1));
  });
  const te::Program p = b.finish({guarded});
  const Tensor values = Tensor::of<int64_t>(DType::I32, {4}, {0, 3, -4, 0});
  EXPECT_EQ(evaluate_on(p, {values})->at(0).to_ints(), (std::vector<int64_t>{-1, 4, -3, -1}));
  te::Builder c;
  const te::Handle y = c.input("x", DType::I32, {4});
  const te::Program q = c.finish({c.map("q", DType::I32, dims, [&](auto i) { return y(i[0]) / y(i[0]); })});
  const auto r = evaluate_on(q, {values});
  ASSERT_FALSE(r.ok());
  EXPECT_EQ(r.error().code, "E-division-by-zero");
}

TEST(Evaluate, StagesAreWithinTheLimitsOfMemory) {
  te::Builder b;
  const std::vector<Dim> large = {1000, 1000}, small = {1};
  const te::Handle t = b.map("large", DType::F64, large, [&](auto) { return Expr::real(DType::F64, 1); });
  const te::Program p = b.finish({b.map("y", DType::F64, small, [&](auto) { return t(Expr(0), Expr(0)); })});
  EXPECT_TRUE(evaluate_on(p, {}).ok());
  Options options;
  options.max_value_bytes = 1 << 20;
  EXPECT_EQ(evaluate_on(p, {}, options).error().code, "E-too-large");
  options = {};
  options.max_live_bytes = 1 << 20;
  EXPECT_EQ(evaluate_on(p, {}, options).error().code, "E-too-large");
}

TEST(Evaluate, EndsAtTheTimeLimit) {
  te::Builder b;
  const te::Axis i = b.axis("i", int64_t{1} << 30), j = b.axis("j", int64_t{1} << 30);
  const te::Program p = b.finish({b.stage("s", DType::I64, {}, te::sum({i, j}, Expr(i) * Expr(j)))});
  Options options;
  options.max_seconds = 0.01;
  EXPECT_EQ(evaluate_on(p, {}, options).error().code, "E-timeout");
}

TEST(Evaluate, WideKeepsTheDoublesOfF32) {
  te::Builder b;
  const te::Handle x = b.input("x", DType::F32, {1});
  const std::vector<Dim> dims = {1};
  const te::Handle y = b.map("y", DType::F32, dims, [&](auto i) {
    return te::cast(DType::F32, te::cast(DType::F64, x(i[0]))) / Expr::real(DType::F32, 3);
  });
  const te::Program p = b.finish({y});
  const Tensor one = Tensor::of<double>(DType::F64, {1}, {1 + 0x1p-40});
  Options options;
  options.wide = true;
  const auto wide = evaluate_on(p, {one}, options);
  ASSERT_TRUE(wide.ok());
  EXPECT_EQ((*wide)[0].dtype(), DType::F64);
  EXPECT_EQ((*wide)[0].real(0), (1 + 0x1p-40) / 3);
  const auto narrow = evaluate_on(p, {one});
  EXPECT_EQ((*narrow)[0].dtype(), DType::F32);
}

TEST(Interp, WideRunsGraphsInDoubleAndDeclaredTypesStay) {
  ir::GraphBuilder b(ops::table(), "g");
  const ir::Value x = *b.input("x", {DType::F32, {2}, nullptr});
  const ir::Value third = b.constant(Tensor::of<double>(DType::F32, {1}, {3}), "three");
  const ir::Value h = *b.add1("div", {x, third});
  b.output("y", *b.add1("mul", {h, h}));
  const ir::Graph g = *std::move(b).finish();
  const Tensor in = Tensor::of<double>(DType::F32, {2}, {1, 5});
  Options options;
  options.wide = true;
  const auto wide = run(g, ops::table(), {in}, options);
  ASSERT_TRUE(wide.ok()) << wide.error().to_string();
  EXPECT_EQ((*wide)[0].dtype(), DType::F64);
  EXPECT_EQ((*wide)[0].to_reals(), (std::vector<double>{1.0 / 3 * (1.0 / 3), 5.0 / 3 * (5.0 / 3)}));
  const auto narrow = run(g, ops::table(), {in});
  ASSERT_TRUE(narrow.ok());
  EXPECT_EQ((*narrow)[0].dtype(), DType::F32);
}

TEST(Interp, ARunThatNeedsTooMuchMemoryNamesTheNode) {
  ir::GraphBuilder b(ops::table(), "g");
  const ir::Value x = *b.input("x", {DType::F32, {1000}, nullptr});
  b.output("y", *b.add1("mul", {x, x}));
  const ir::Graph g = *std::move(b).finish();
  Options options;
  options.max_live_bytes = 1000;
  const auto r = run(g, ops::table(), {Tensor(DType::F32, {1000})}, options);
  ASSERT_FALSE(r.ok());
  EXPECT_EQ(r.error().code, "E-too-large");
  ASSERT_FALSE(r.error().notes.empty());
  EXPECT_NE(r.error().notes[0].find("(mul)"), std::string::npos);
}

}  // namespace
}  // namespace isomer::interp
