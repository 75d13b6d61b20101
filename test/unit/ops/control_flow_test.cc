// If, loop and scan: bodies with captures, states whose shapes change, and loops that would not end.
#include <gtest/gtest.h>

#include "interp/interp.h"
#include "ops/table.h"

namespace isomer {
namespace {

using ir::GraphBuilder;
using ir::Value;

Type f32(std::vector<Dim> dims) { return {DType::F32, Shape(std::move(dims)), nullptr}; }
Type of(DType t, std::vector<Dim> dims = {}) { return {t, Shape(std::move(dims)), nullptr}; }
Tensor vec(const std::vector<double>& v) { return Tensor::of(DType::F32, {static_cast<int64_t>(v.size())}, v); }

ir::GraphRef finish(GraphBuilder&& b) { return std::make_shared<const ir::Graph>(*std::move(b).finish()); }

// Runs one node on values; the node's inputs are the graph's.
Expected<std::vector<Tensor>> run_op(const std::string& op, const std::vector<Tensor>& inputs, ir::Attrs attrs,
                                     size_t outputs, const std::vector<bool>& absent = {}) {
  GraphBuilder b(ops::table(), "test");
  std::vector<Value> in;
  for (size_t i = 0; i < inputs.size(); ++i) {
    ISOMER_TRY(const Value v, b.input("in" + std::to_string(i), inputs[i].type()));
    in.push_back(v);
  }
  for (size_t i = 0; i < absent.size(); ++i)
    if (absent[i]) in.insert(in.begin() + static_cast<ptrdiff_t>(i), Value::none());
  ISOMER_TRY(const std::vector<Value> out, b.add(op, in, std::move(attrs), {}, outputs));
  for (size_t k = 0; k < out.size(); ++k) b.output("out" + std::to_string(k), out[k]);
  ISOMER_TRY(const ir::Graph g, std::move(b).finish());
  return interp::run(g, ops::table(), inputs);
}

// x -> op(x, x) over a captured value.
ir::GraphRef doubling(const std::string& op, const Type& t) {
  GraphBuilder b(ops::table(), op);
  const Value x = *b.input("x", t);
  b.output("y", *b.add1(op, {x, x}));
  return finish(std::move(b));
}

TEST(If, RunsTheBranchThatIsChosenOnCapturedValues) {
  const ir::Attrs attrs{
      {"captures", int64_t{1}}, {"then_branch", doubling("add", f32({2}))}, {"else_branch", doubling("mul", f32({2}))}};
  for (int64_t cond : {0, 1}) {
    const auto out = run_op("if", {Tensor::int_scalar(DType::Bool, cond), vec({3, 4})}, attrs, 1);
    ASSERT_TRUE(out.ok()) << out.error().to_string();
    EXPECT_EQ(out->at(0).to_reals(), cond ? (std::vector<double>{6, 8}) : (std::vector<double>{9, 16}));
  }
}

TEST(If, JoinsTheTypesOfItsBranches) {
  GraphBuilder t(ops::table(), "t"), e(ops::table(), "e"), g(ops::table(), "g");
  t.output("y", t.constant(Tensor(DType::F32, {2, 3})));
  e.output("y", e.constant(Tensor(DType::F32, {2, 4})));
  const Value cond = *g.input("cond", of(DType::Bool));
  const auto y =
      g.add("if", {cond}, {{"then_branch", finish(std::move(t))}, {"else_branch", finish(std::move(e))}}, {}, 1);
  ASSERT_TRUE(y.ok()) << y.error().to_string();
  const Shape& s = g.type(y->at(0)).shape;
  EXPECT_EQ(s[0], Dim(2));
  EXPECT_FALSE(s[1].is_const());
}

TEST(If, RefusesBranchesOfTwoTypesAndWrongCounts) {
  GraphBuilder t(ops::table(), "t"), e(ops::table(), "e");
  t.output("y", t.constant(Tensor(DType::F32, {2})));
  e.output("y", e.constant(Tensor(DType::I64, {2})));
  const ir::Attrs attrs{{"then_branch", finish(std::move(t))}, {"else_branch", finish(std::move(e))}};
  const Tensor yes = Tensor::int_scalar(DType::Bool, 1);
  EXPECT_FALSE(run_op("if", {yes}, attrs, 1).ok());
  EXPECT_FALSE(run_op("if", {yes}, attrs, 2).ok());
  for (int64_t captures : {int64_t{-1}, int64_t{2}, INT64_MAX}) {
    ir::Attrs bad = attrs;
    bad.set("captures", captures);
    EXPECT_FALSE(run_op("if", {yes}, bad, 1).ok());
  }
}

// iter, cond, s, captured k -> cond, s + k, s
ir::GraphRef counting_body(bool constant_condition) {
  GraphBuilder b(ops::table(), "counting");
  EXPECT_TRUE(b.input("iter", of(DType::I64)).ok());
  const Value cond = *b.input("cond", of(DType::Bool));
  const Value s = *b.input("s", f32({2}));
  const Value k = *b.input("k", f32({2}));
  b.output("cond_out", constant_condition ? b.constant(Tensor::int_scalar(DType::Bool, 1)) : cond);
  b.output("s_out", *b.add1("add", {s, k}));
  b.output("scan", s);
  return finish(std::move(b));
}

TEST(Loop, HandsStatesOnAndStacksResults) {
  const ir::Attrs attrs{{"body", counting_body(false)}, {"captures", int64_t{1}}};
  const auto out =
      run_op("loop", {Tensor::int_scalar(DType::I64, 3), Tensor::int_scalar(DType::Bool, 1), vec({0, 1}), vec({1, 10})},
             attrs, 2);
  ASSERT_TRUE(out.ok()) << out.error().to_string();
  EXPECT_EQ(out->at(0).to_reals(), (std::vector<double>{3, 31}));
  EXPECT_EQ(out->at(1).dims(), (std::vector<int64_t>{3, 2}));
  EXPECT_EQ(out->at(1).to_reals(), (std::vector<double>{0, 1, 1, 11, 2, 21}));
}

TEST(Loop, GivesAnEmptyStackForNoIterations) {
  const ir::Attrs attrs{{"body", counting_body(false)}, {"captures", int64_t{1}}};
  for (const auto& [trips, cond] : {std::pair<int64_t, int64_t>{0, 1}, {-5, 1}, {7, 0}}) {
    const auto out = run_op(
        "loop",
        {Tensor::int_scalar(DType::I64, trips), Tensor::int_scalar(DType::Bool, cond), vec({5, 6}), vec({1, 10})},
        attrs, 2);
    ASSERT_TRUE(out.ok()) << out.error().to_string();
    EXPECT_EQ(out->at(0).to_reals(), (std::vector<double>{5, 6}));
    EXPECT_EQ(out->at(1).dims(), (std::vector<int64_t>{0, 2}));
  }
}

TEST(Loop, RefusesALoopWithoutEndAtOnce) {
  for (bool constant : {false, true}) {
    const ir::Attrs attrs{{"body", counting_body(constant)}, {"captures", int64_t{1}}};
    const auto huge = run_op(
        "loop",
        {Tensor::int_scalar(DType::I64, INT64_MAX), Tensor::int_scalar(DType::Bool, 1), vec({0, 1}), vec({1, 1})},
        attrs, 2);
    EXPECT_FALSE(huge.ok());  // the stack alone would be too large
    const auto endless = run_op("loop", {vec({0, 1}), vec({1, 1})}, attrs, 2, {true, true});
    ASSERT_FALSE(endless.ok());
    EXPECT_EQ(endless.error().code, "E-loop-limit");
  }
}

TEST(Loop, RefusesBodiesThatDoNotFit) {
  const ir::Attrs attrs{{"body", counting_body(false)}, {"captures", int64_t{1}}};
  const Tensor m = Tensor::int_scalar(DType::I64, 3), cond = Tensor::int_scalar(DType::Bool, 1);
  EXPECT_FALSE(run_op("loop", {m, cond, vec({1, 2, 3}), vec({1, 1})}, attrs, 2).ok());
  EXPECT_FALSE(run_op("loop", {m, cond, Tensor(DType::I64, {2}), vec({1, 1})}, attrs, 2).ok());
  EXPECT_FALSE(run_op("loop", {m, cond, vec({1, 2}), vec({1, 1})}, attrs, 3).ok());
  EXPECT_FALSE(run_op("loop", {m, cond, vec({1, 2})}, attrs, 2).ok());
  EXPECT_FALSE(run_op("loop", {Tensor(DType::I64, {0}), cond, vec({1, 2}), vec({1, 1})}, attrs, 2).ok());
}

// s, x -> s + x, s + x
ir::GraphRef prefix_sums(const Type& t) {
  GraphBuilder b(ops::table(), "prefix");
  const Value s = *b.input("s", t);
  const Value x = *b.input("x", t);
  const Value y = *b.add1("add", {s, x});
  b.output("s_out", y);
  b.output("y", y);
  return finish(std::move(b));
}

TEST(Scan, RunsOverAnyAxisInBothDirections) {
  const Tensor x = Tensor::of<double>(DType::F32, {2, 3}, {1, 2, 3, 10, 20, 30});
  const ir::Attrs attrs{{"body", prefix_sums(f32({2}))},
                        {"num_scan_inputs", int64_t{1}},
                        {"scan_input_axes", std::vector<int64_t>{-1}},
                        {"scan_input_directions", std::vector<int64_t>{1}},
                        {"scan_output_axes", std::vector<int64_t>{-1}},
                        {"scan_output_directions", std::vector<int64_t>{1}}};
  const auto out = run_op("scan", {vec({0, 0}), x}, attrs, 2);
  ASSERT_TRUE(out.ok()) << out.error().to_string();
  EXPECT_EQ(out->at(0).to_reals(), (std::vector<double>{6, 60}));
  EXPECT_EQ(out->at(1).dims(), (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(out->at(1).to_reals(), (std::vector<double>{6, 5, 3, 60, 50, 30}));
}

TEST(Scan, RefusesWrongAxesCountsAndLengths) {
  const Tensor x(DType::F32, {2, 3});
  const ir::Attrs good{{"body", prefix_sums(f32({3}))}, {"num_scan_inputs", int64_t{1}}};
  EXPECT_TRUE(run_op("scan", {vec({0, 0, 0}), x}, good, 2).ok());
  const auto with = [&](const std::string& key, ir::AttrValue v) {
    ir::Attrs attrs = good;
    attrs.set(key, std::move(v));
    return run_op("scan", {vec({0, 0, 0}), x}, attrs, 2).ok();
  };
  EXPECT_FALSE(with("num_scan_inputs", int64_t{0}));
  EXPECT_FALSE(with("num_scan_inputs", int64_t{3}));
  EXPECT_FALSE(with("num_scan_inputs", INT64_MAX));
  EXPECT_FALSE(with("scan_input_axes", std::vector<int64_t>{2}));
  EXPECT_FALSE(with("scan_input_axes", std::vector<int64_t>{0, 0}));
  EXPECT_FALSE(with("scan_output_axes", std::vector<int64_t>{INT64_MIN}));
  EXPECT_FALSE(with("scan_input_directions", std::vector<int64_t>{2}));
}

TEST(Scan, ConvertsTheBatchesOfOpset8) {
  GraphBuilder b(ops::table(), "test");
  const Value s = *b.input("s", f32({1, 2}));
  const Value x = *b.input("x", f32({1, 3, 2}));
  const auto entry = ops::table().find_onnx("", "Scan");
  ir::ForeignNode n{.op = entry->op,
                    .type = "Scan",
                    .domain = "",
                    .version = 8,
                    .inputs = {Value::none(), s, x},
                    .attrs = {{"body", prefix_sums(f32({2}))}, {"num_scan_inputs", int64_t{1}}},
                    .info = {},
                    .outputs = 2};
  const auto out = entry->form->import(n, b);
  ASSERT_TRUE(out.ok()) << out.error().to_string();
  b.output("s_out", out->at(0));
  b.output("y", out->at(1));
  const ir::Graph g = *std::move(b).finish();
  EXPECT_EQ(g.type(g.outputs()[1].value).to_string(), "f32[1,3,2]");
  const auto r = interp::run(
      g, ops::table(),
      {Tensor::of<double>(DType::F32, {1, 2}, {0, 0}), Tensor::of<double>(DType::F32, {1, 3, 2}, {1, 2, 3, 4, 5, 6})});
  ASSERT_TRUE(r.ok()) << r.error().to_string();
  EXPECT_EQ(r->at(0).to_reals(), (std::vector<double>{9, 12}));
  EXPECT_EQ(r->at(1).to_reals(), (std::vector<double>{1, 2, 4, 6, 9, 12}));
}

}  // namespace
}  // namespace isomer
