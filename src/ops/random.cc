// Draws of random numbers. With a `seed` attribute the draw is that seed's; without one it is that of seed 0, so that a
// run can be repeated; the records are not pure, so that two nodes are never merged into one draw.
#include <fmt/format.h>

#include <cmath>

#include "ir/op.h"
#include "ops/draws.h"

namespace isomer::ops {
namespace {

Draws generator(const ir::OpContext& c) { return Draws(c.has_attr("seed") ? c.real("seed") : 0.0); }

using Draw = double (*)(const ir::OpContext&, Draws&);
double normal(const ir::OpContext& c, Draws& r) { return c.real("mean") + c.real("scale") * r.normal(); }
double uniform(const ir::OpContext& c, Draws& r) {
  return c.real("low") + (c.real("high") - c.real("low")) * r.uniform();
}

Tensor filled(const ir::OpContext& c, const Type& type, Draw draw) {
  Draws r = generator(c);
  Tensor out(type.dtype, type.shape.values());
  for (int64_t i = 0; i < out.size(); ++i) out.set_real(i, draw(c, r));
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

ir::OpDef record(Draw draw, bool like, std::vector<ir::AttrDef> parameters) {
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
  op.kernel = [draw, infer = op.infer](const ir::OpContext& c) -> Expected<std::vector<Tensor>> {
    ISOMER_TRY(const std::vector<Type> types, infer(c));
    return std::vector{filled(c, types[0], draw)};
  };
  op.pure = false;
  return op;
}

ir::OpDef normal_record(bool like) {
  return record(normal, like, {{"mean", ir::AttrKind::Real, 0.0}, {"scale", ir::AttrKind::Real, 1.0}});
}
ir::OpDef uniform_record(bool like) {
  return record(uniform, like, {{"high", ir::AttrKind::Real, 1.0}, {"low", ir::AttrKind::Real, 0.0}});
}

// Each row draws sample_size classes from the distribution whose unnormalised logarithms it holds.
Expected<std::vector<Tensor>> multinomial(const ir::OpContext& c) {
  const Tensor& x = *c.value(0);
  const int64_t rows = x.dims()[0], classes = x.dims()[1], n = c.integer("sample_size");
  if (classes == 0 && rows > 0 && n > 0) return c.error("there are no classes to draw from");
  Draws r = generator(c);
  Tensor out(c.dtype_attr("dtype"), {rows, n});
  std::vector<double> sums(static_cast<size_t>(classes));
  for (int64_t b = 0; b < rows; ++b) {
    double top = -INFINITY, total = 0;
    for (int64_t k = 0; k < classes; ++k) top = std::max(top, x.real(b * classes + k));
    for (int64_t k = 0; k < classes; ++k)
      sums[static_cast<size_t>(k)] = total += std::exp(x.real(b * classes + k) - top);
    for (int64_t i = 0; i < n; ++i) {
      const double at = r.uniform() * total;
      int64_t k = 0;
      while (k + 1 < classes && !(at < sums[static_cast<size_t>(k)])) ++k;
      out.set_integer(b * n + i, k);
    }
  }
  return std::vector{std::move(out)};
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
  op.kernel = [](const ir::OpContext& c) -> Expected<std::vector<Tensor>> {
    const Tensor& p = *c.value(0);
    Draws r = generator(c);
    Tensor out(c.out(0, {}).dtype, p.dims());
    for (int64_t i = 0; i < out.size(); ++i) out.set_real(i, r.flip(p.real(i)) ? 1 : 0);
    return std::vector{std::move(out)};
  };
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
  op.kernel = multinomial;
  op.pure = false;
  op.samples = {"multinomial(f32[2,3]){sample_size=4, seed=1.0}"};
  op.onnx = {{.type = "Multinomial", .since = {7, 22}, .stable = 7}};
  return op;
}

}  // namespace isomer::ops
