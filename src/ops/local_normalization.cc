// Normalisations without parameters: across near channels, by a norm, by mean and variance.
#include <fmt/format.h>

#include "ir/op.h"
#include "ops/elementwise.h"
#include "ops/reduction.h"

namespace isomer::ops {
namespace {

using te::Combiner;
using te::Expr;

Expected<te::Program> lrn_program(const ir::OpContext& c) {
  const int64_t size = c.integer("size");
  if (size < 1) return c.error(fmt::format("size is {}, expected 1 or more", size));
  if (c.rank(0) < 2) return c.error(fmt::format("expected samples of channels, found {}", c.shape(0).to_string()));
  te::Builder b;
  const auto in = c.declare(b);
  const DType work = accumulator(c.dtype(0));
  const Dim& channels = c.dim(0, 1);
  // A window wider than all channels reads no more than all of them.
  int64_t below = (size - 1) / 2, above = size / 2;
  if (const auto n = channels.constant()) below = std::min(below, *n), above = std::min(above, *n);
  const te::Axis k = b.axis("k", Dim(below) + Dim(above) + Dim(1));
  const te::Handle squares = b.map("squares", work, in[0].dims(), [&](auto i) {
    std::vector<Expr> at(i.begin(), i.end());
    at[1] = i[1] + k - Expr(below);
    const Expr x = cast(work, in[0].at(at));
    return te::sum({k}, x * x, te::in_range(at[1], Expr(channels)));
  });
  return b.finish({b.map("y", c.dtype(0), in[0].dims(), [&](auto i) {
    const Expr rate = Expr::real(work, c.real("alpha") / static_cast<double>(size));
    const Expr base = Expr::real(work, c.real("bias")) + rate * squares.broadcast(i);
    const Expr x = cast(work, in[0].at({i.begin(), i.end()}));
    return cast(c.dtype(0), x / pow(base, Expr::real(work, c.real("beta"))));
  })});
}

Expected<te::Program> lp_program(const ir::OpContext& c) {
  ISOMER_TRY(const AxisMask mask, axis_mask(c, std::vector{c.integer("axis")}, c.rank(0)));
  const int64_t p = c.integer("p");
  if (p != 1 && p != 2) return c.error(fmt::format("p is {}, expected 1 or 2", p));
  te::Builder b;
  const auto in = c.declare(b);
  const DType work = accumulator(c.dtype(0));
  const auto x = [&](auto i) { return cast(work, in[0].broadcast(i)); };
  const te::Handle total = reduce_stage(b, "total", Combiner::Sum, in[0].dims(), mask,
                                        [&](auto i) { return p == 1 ? abs(x(i)) : x(i) * x(i); });
  return b.finish({b.map("output", c.dtype(0), in[0].dims(), [&](auto i) {
    const Expr all = total.broadcast(i);
    const Expr quotient = x(i) / (p == 1 ? all : sqrt(all));
    // Nothing but zeros along the axis stays zeros.
    return cast(c.dtype(0), select(eq(all, 0), 0, quotient));
  })});
}

Expected<te::Program> mean_variance_program(const ir::OpContext& c) {
  ISOMER_TRY(const AxisMask mask, axis_mask(c, c.ints("axes"), c.rank(0)));
  te::Builder b;
  const auto in = c.declare(b);
  const DType work = accumulator(c.dtype(0));
  const Moments m = moments(b, in[0], mask, work);
  return b.finish({b.map("y", c.dtype(0), in[0].dims(), [&](auto i) {
    const Expr deviation = sqrt(m.variance.broadcast(i)) + Expr::real(work, 1e-9);
    return cast(c.dtype(0), (cast(work, in[0].at({i.begin(), i.end()})) - m.mean.broadcast(i)) / deviation);
  })});
}

}  // namespace

ir::OpDef op_lrn() {
  ir::OpDef op;
  op.name = "lrn";
  op.doc = "x / (bias + alpha / size * sum of squares over `size` near channels) ^ beta.";
  op.inputs = {{"x", "T", kFloats}};
  op.outputs = {{"y", "T"}};
  op.attrs = {{"alpha", ir::AttrKind::Real, 1e-4},
              {"beta", ir::AttrKind::Real, 0.75},
              {"bias", ir::AttrKind::Real, 1.0},
              {.name = "size", .kind = ir::AttrKind::Int, .required = true}};
  op.compute = lrn_program;
  op.samples = {"lrn(f32[2,5,3]){size=3}", "lrn(f32[1,4,2,2]){size=2,alpha=0.5,beta=0.5,bias=2.0}"};
  op.onnx = {{.type = "LRN", .since = {1, 13}}};
  return op;
}

ir::OpDef op_lp_normalization() {
  ir::OpDef op;
  op.name = "lp_normalization";
  op.doc = "x divided by its 1-norm or 2-norm along the axis.";
  op.inputs = {{"input", "T", kFloats}};
  op.outputs = {{"output", "T"}};
  op.attrs = {{"axis", ir::AttrKind::Int, int64_t{-1}}, {"p", ir::AttrKind::Int, int64_t{2}}};
  op.compute = lp_program;
  op.samples = {"lp_normalization(f32[2,3])", "lp_normalization(f32[2,3]){axis=0,p=1}"};
  op.onnx = {{.type = "LpNormalization", .since = {1, 22}}};
  return op;
}

ir::OpDef op_mean_variance_normalization() {
  ir::OpDef op;
  op.name = "mean_variance_normalization";
  op.doc = "Mean 0 and variance 1 over the axes.";
  op.inputs = {{"x", "T", kFloats}};
  op.outputs = {{"y", "T"}};
  op.attrs = {{"axes", ir::AttrKind::Ints, std::vector<int64_t>{0, 2, 3}}};
  op.compute = mean_variance_program;
  op.samples = {"mean_variance_normalization(f32[2,3,2,2])", "mean_variance_normalization(f32[2,3]){axes=[-1]}"};
  op.onnx = {{.type = "MeanVarianceNormalization", .since = {9, 13}, .stable = 9}};
  return op;
}

}  // namespace isomer::ops
