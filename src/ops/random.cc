// Draws of random numbers. With a `seed` attribute the draw is that seed's; without one it is that of seed 0, so that a
// run can be repeated; the records are not pure, so that two nodes are never merged into one draw.
#include <fmt/format.h>

#include <cmath>

#include "ir/op.h"
#include "ops/compose.h"
#include "ops/draws.h"

namespace isomer::ops {
namespace {

using Results = Expected<std::vector<ir::Value>>;

constexpr int64_t kMostSamples = int64_t{1} << 24;

Draws generator(const ir::OpContext& c) { return Draws(c.has_attr("seed") ? c.real("seed") : 0.0); }

// A distribution and the attributes that place it: a draw is base + span * one().
struct Family {
  double (*one)(Draws&);
  double (*base)(const ir::OpContext&);
  double (*span)(const ir::OpContext&);
};
constexpr Family kNormal{[](Draws& r) { return r.normal(); }, [](const ir::OpContext& c) { return c.real("mean"); },
                         [](const ir::OpContext& c) { return c.real("scale"); }};
constexpr Family kUniform{[](Draws& r) { return r.uniform(); }, [](const ir::OpContext& c) { return c.real("low"); },
                          [](const ir::OpContext& c) { return c.real("high") - c.real("low"); }};

Tensor filled(const ir::OpContext& c, const Type& type, const Family& family) {
  Draws r = generator(c);
  const double base = family.base(c), span = family.span(c);
  Tensor out(type.dtype, type.shape.values());
  for (int64_t i = 0; i < out.size(); ++i) out.set_real(i, base + span * family.one(r));
  return out;
}

Expected<void> float_result(const ir::OpContext& c, const Type& t) {
  if (!is_float(t.dtype)) return c.error(fmt::format("draws floats, the result type {} is none", name(t.dtype)));
  return {};
}

Expected<std::vector<Type>> infer_shaped(const ir::OpContext& c) {
  Type t = c.out(0, Shape::of(c.ints("shape")));
  ISOMER_CHECK_OK(float_result(c, t));
  if (const auto size = checked_elements(t.dtype, t.shape.values()); !size.ok()) return c.error(size.error().message);
  return std::vector{std::move(t)};
}

Expected<std::vector<Type>> infer_like(const ir::OpContext& c) {
  Type t = c.out(0, c.shape(0));
  ISOMER_CHECK_OK(float_result(c, t));
  return std::vector{std::move(t)};
}

ir::OpDef record(const Family& family, bool like, std::vector<ir::AttrDef> parameters) {
  ir::OpDef op;
  op.attrs = std::move(parameters);
  op.attrs.push_back({"seed", ir::AttrKind::Real});
  if (like) {
    op.inputs = {{"input", "T", kAllTypes}};
    op.outputs = {{"output", "$dtype|T"}};
    op.attrs.push_back({"dtype", ir::AttrKind::DType});
    op.infer = infer_like;
  } else {
    op.outputs = {{"output", "$dtype"}};
    op.attrs.push_back({"dtype", ir::AttrKind::DType, DType::F32});
    op.attrs.push_back({"shape", ir::AttrKind::Ints, std::nullopt, true});
    op.infer = infer_shaped;
  }
  op.kernel = [family, infer = op.infer](const ir::OpContext& c) -> Expected<std::vector<Tensor>> {
    ISOMER_TRY(const std::vector<Type> types, infer(c));
    return std::vector{filled(c, types[0], family)};
  };
  op.pure = false;
  return op;
}

ir::OpDef normal_record(bool like) {
  return record(kNormal, like, {{"mean", ir::AttrKind::Real, 0.0}, {"scale", ir::AttrKind::Real, 1.0}});
}
ir::OpDef uniform_record(bool like) {
  return record(kUniform, like, {{"high", ir::AttrKind::Real, 1.0}, {"low", ir::AttrKind::Real, 0.0}});
}

// Even draws from 0 to 1, as many as `like` has elements; those of the node's seed.
ir::Value evenly(const ir::OpContext& c, Compose& g, ir::Value like) {
  ir::Attrs attrs{{"dtype", DType::F64}};
  if (c.has_attr("seed")) attrs.set("seed", c.real("seed"));
  return g("random_uniform_like", {like}, std::move(attrs));
}

// As a binomial draw of one trial: by inversion, from the rarer side.
Results flip(const ir::OpContext& c, ir::GraphBuilder& b, std::span<const ir::Value> in) {
  Compose g(b);
  const ir::Value p = g.cast(in[0], DType::F64), draw = evenly(c, g, in[0]);
  const ir::Value likely = g("less_or_equal", {draw, p});
  const ir::Value rare = g("greater", {draw, g.sub(g.scalar(DType::F64, 1), p)});
  const ir::Value drawn = g.where(g("greater", {p, g.scalar(DType::F64, 0.5)}), likely, rare);
  return g.finish({g.cast(drawn, c.out(0, {}).dtype)});
}

// Each row draws sample_size classes from the distribution whose unnormalised logarithms it holds: the first class whose
// part of the sum reaches the draw.
Results multinomial(const ir::OpContext& c, ir::GraphBuilder& b, std::span<const ir::Value> in) {
  const int64_t n = c.integer("sample_size");
  if (c.dim(0, 1).is_const() && c.dim(0, 1).value() == 0) return c.error("there are no classes to draw from");
  if (n > kMostSamples) return c.error(fmt::format("{} draws of one row are too many", n));
  Compose g(b);
  const ir::Value x = g.cast(in[0], DType::F64), top = g("reduce_max", {x, g.ints({1})});
  const ir::Value sums = g("cum_sum", {g("exp", {g.sub(x, top)}), g.constant(Tensor::int_scalar(DType::I64, 1))});
  const ir::Value total = g.slice(sums, 1, -1, INT64_MAX), before = g.slice(sums, 1, 0, -1);
  const std::vector<int64_t> each(static_cast<size_t>(n), 0);
  const ir::Value draw = evenly(c, g, g("gather", {top, g.ints(each)}, {{"axis", int64_t{1}}}));
  const ir::Value passed = g("less_or_equal", {g.unsqueeze(before, {1}), g.unsqueeze(g.mul(draw, total), {2})});
  const ir::Value drawn = g("reduce_sum", {g.cast(passed, DType::I64), g.ints({2})}, {{"keepdims", int64_t{0}}});
  return g.finish({g.cast(drawn, c.dtype_attr("dtype"))});
}

Expected<std::vector<Type>> infer_multinomial(const ir::OpContext& c) {
  if (c.rank(0) != 2) return c.error(fmt::format("expected a matrix, found {}", c.type(0).to_string()));
  if (c.integer("sample_size") < 0)
    return c.error(fmt::format("sample_size is {}, expected 0 or more", c.integer("sample_size")));
  if (!kIndexInts.contains(c.dtype_attr("dtype"))) return c.error("attribute 'dtype' must be i32 or i64");
  return std::vector{c.out(0, Shape{c.dim(0, 0), Dim(c.integer("sample_size"))})};
}

}  // namespace

ir::OpDef op_random_normal() {
  ir::OpDef op = normal_record(false);
  op.name = "random_normal";
  op.doc = "Numbers drawn from a normal distribution; without a seed, seed 0.";
  op.samples = {"random_normal(){shape=[2,3], seed=1.0}"};
  op.onnx = {{.type = "RandomNormal", .since = {1, 22}, .stable = 1}};
  return op;
}
ir::OpDef op_random_normal_like() {
  ir::OpDef op = normal_record(true);
  op.name = "random_normal_like";
  op.doc = "Numbers drawn from a normal distribution, as many as the input has; without a seed, seed 0.";
  op.samples = {"random_normal_like(f32[2,3]){seed=1.0}"};
  op.onnx = {{.type = "RandomNormalLike", .since = {1, 22}, .stable = 1}};
  return op;
}
ir::OpDef op_random_uniform() {
  ir::OpDef op = uniform_record(false);
  op.name = "random_uniform";
  op.doc = "Numbers drawn evenly from low to high; without a seed, seed 0.";
  op.samples = {"random_uniform(){shape=[2,3], low=-1.0, seed=1.0}"};
  op.onnx = {{.type = "RandomUniform", .since = {1, 22}, .stable = 1}};
  return op;
}
ir::OpDef op_random_uniform_like() {
  ir::OpDef op = uniform_record(true);
  op.name = "random_uniform_like";
  op.doc = "Numbers drawn evenly from low to high, as many as the input has; without a seed, seed 0.";
  op.samples = {"random_uniform_like(f32[2,3]){seed=1.0}"};
  op.onnx = {{.type = "RandomUniformLike", .since = {1, 22}, .stable = 1}};
  return op;
}

ir::OpDef op_bernoulli() {
  ir::OpDef op;
  op.name = "bernoulli";
  op.doc = "1 with the probability that the input holds, else 0; without a seed, seed 0.";
  op.inputs = {{"input", "T", kFloats}};
  op.outputs = {{"output", "$dtype|T"}};
  op.attrs = {{"dtype", ir::AttrKind::DType}, {"seed", ir::AttrKind::Real}};
  op.infer = [](const ir::OpContext& c) -> Expected<std::vector<Type>> { return std::vector{c.out(0, c.shape(0))}; };
  op.infer_unranked = true;
  op.expand = flip;
  op.pure = false;
  op.samples = {"bernoulli(f32[2,3]){seed=1.0}"};
  op.onnx = {{.type = "Bernoulli", .since = {15, 22}, .stable = 15}};
  return op;
}

ir::OpDef op_multinomial() {
  ir::OpDef op;
  op.name = "multinomial";
  op.doc = "Classes drawn by unnormalised log-probabilities, row by row; without a seed, seed 0.";
  op.inputs = {{"input", "T", kFloats}};
  op.outputs = {{"output", "$dtype"}};
  op.attrs = {{"dtype", ir::AttrKind::DType, DType::I32},
              {"sample_size", ir::AttrKind::Int, int64_t{1}},
              {"seed", ir::AttrKind::Real}};
  op.infer = infer_multinomial;
  op.expand = multinomial;
  op.pure = false;
  op.samples = {"multinomial(f32[2,3]){sample_size=4, seed=1.0}"};
  op.onnx = {{.type = "Multinomial", .since = {7, 22}, .stable = 7}};
  return op;
}

}  // namespace isomer::ops
