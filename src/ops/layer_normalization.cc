// Normalisations over the axes of one sample.
#include <fmt/format.h>

#include "ir/op.h"
#include "ops/broadcast.h"
#include "ops/elementwise.h"
#include "ops/legacy.h"
#include "ops/reduction.h"

namespace isomer::ops {
namespace {

using te::Combiner;
using te::Expr;

Expr reciprocal_root(const Expr& x) { return Expr(1) / sqrt(x); }

ir::AttrDef epsilon() { return {"epsilon", ir::AttrKind::Real, 1e-5}; }
ir::AttrDef stash_type() { return {"stash_type", ir::AttrKind::DType, DType::F32}; }

Expected<void> check_stash(const ir::OpContext& c) {
  const DType t = c.dtype_attr("stash_type");
  if (is_float(t)) return {};
  return c.error(fmt::format("expected a float type as stash_type, found {}", name(t)));
}

Expected<te::Program> layer_program(const ir::OpContext& c) {
  ISOMER_TRY(const size_t axis, c.axis(c.integer("axis"), c.rank(0)));
  ISOMER_CHECK_OK(check_stash(c));
  for (size_t i : {1, 2})
    if (c.has(i)) ISOMER_CHECK_OK(check_broadcasts_to(c, i, c.shape(0).dims()));
  te::Builder b;
  const auto in = c.declare(b);
  const DType work = accumulator(c.dtype(0)), stash = c.dtype_attr("stash_type");
  const Moments m = moments(b, in[0], trailing_axes(axis, c.rank(0)), work);
  const te::Handle inverse = b.map("inverse", work, m.mean.dims(), [&](auto i) {
    return reciprocal_root(m.variance.broadcast(i) + Expr::real(work, c.real("epsilon")));
  });
  std::vector<te::Handle> out = {b.map("y", c.dtype(0), in[0].dims(), [&](auto i) {
    const Expr centred = cast(work, in[0].at({i.begin(), i.end()})) - m.mean.broadcast(i);
    Expr y = centred * inverse.broadcast(i) * cast(work, in[1].broadcast(i));
    if (c.has(2)) y = y + cast(work, in[2].broadcast(i));
    return cast(c.dtype(0), y);
  })};
  if (c.output_count() > 1)
    out.push_back(b.map("mean", stash, m.mean.dims(), [&](auto i) { return cast(stash, m.mean.broadcast(i)); }));
  if (c.output_count() > 2)
    out.push_back(b.map("invstddev", stash, m.mean.dims(), [&](auto i) { return cast(stash, inverse.broadcast(i)); }));
  return b.finish(std::move(out));
}

Expected<te::Program> rms_program(const ir::OpContext& c) {
  ISOMER_TRY(const size_t axis, c.axis(c.integer("axis"), c.rank(0)));
  ISOMER_CHECK_OK(check_stash(c));
  ISOMER_CHECK_OK(check_broadcasts_to(c, 1, c.shape(0).dims()));
  te::Builder b;
  const auto in = c.declare(b);
  const DType work = accumulator(c.dtype(0));
  const AxisMask mask = trailing_axes(axis, c.rank(0));
  const te::Handle squares = reduce_stage(b, "squares", Combiner::Sum, in[0].dims(), mask, [&](auto i) {
    const Expr x = cast(work, in[0].broadcast(i));
    return x * x;
  });
  const te::Handle inverse = b.map("inverse", work, squares.dims(), [&](auto i) {
    const Expr count = cast(work, Expr(reduced_elements(in[0].dims(), mask)));
    return reciprocal_root(squares.broadcast(i) / count + Expr::real(work, c.real("epsilon")));
  });
  return b.finish({b.map("y", c.dtype(0), in[0].dims(), [&](auto i) {
    const Expr x = cast(work, in[0].at({i.begin(), i.end()}));
    return cast(c.dtype(0), x * inverse.broadcast(i) * cast(work, in[1].broadcast(i)));
  })});
}

// scale and bias of one number a channel.
Expected<void> check_channels(const ir::OpContext& c) {
  if (c.rank(0) < 2) return c.error(fmt::format("expected samples of channels, found {}", c.shape(0).to_string()));
  for (size_t i : {1, 2}) {
    const bool vector = c.rank(i) == 1;
    if (!vector || (c.dim(i, 0).is_const() && c.dim(0, 1).is_const() && !(c.dim(i, 0) == c.dim(0, 1))))
      return c.error(fmt::format("expected the shape [{}] for '{}', found {}", c.dim(0, 1).to_string(),
                                 c.op().inputs[i].name, c.shape(i).to_string()));
  }
  return {};
}

Expected<te::Program> instance_program(const ir::OpContext& c) {
  ISOMER_CHECK_OK(check_channels(c));
  te::Builder b;
  const auto in = c.declare(b);
  const DType work = accumulator(c.dtype(0));
  const Moments m = moments(b, in[0], trailing_axes(2, c.rank(0)), work);
  const te::Handle inverse = b.map("inverse", work, m.mean.dims(), [&](auto i) {
    return reciprocal_root(m.variance.broadcast(i) + Expr::real(work, c.real("epsilon")));
  });
  return b.finish({b.map("output", c.dtype(0), in[0].dims(), [&](auto i) {
    const Expr unit = (cast(work, in[0].at({i.begin(), i.end()})) - m.mean.broadcast(i)) * inverse.broadcast(i);
    return cast(c.dtype(0), unit * cast(work, in[1](i[1])) + cast(work, in[2](i[1])));
  })});
}

// The mean and variance of every group of channels, in two steps: over the places of each channel, then over the channels.
Expected<te::Program> group_program(const ir::OpContext& c) {
  ISOMER_CHECK_OK(check_channels(c));
  ISOMER_CHECK_OK(check_stash(c));
  const int64_t groups = c.integer("num_groups");
  const Dim& channels = c.dim(0, 1);
  if (groups < 1 || (channels.is_const() && channels.value() % groups != 0))
    return c.error(
        fmt::format("num_groups is {}, expected a divisor of the {} channels", groups, channels.to_string()));
  te::Builder b;
  const auto in = c.declare(b);
  const DType work = accumulator(c.dtype(0));
  const Dim size = floor_div(channels, Dim(groups));
  const AxisMask places = trailing_axes(2, c.rank(0));
  const Expr count = cast(work, Expr(size * reduced_elements(in[0].dims(), places)));
  // The mean over its group, for each channel: of what the channels have in all their places.
  const auto mean_of = [&](const std::string& name, const te::Builder::Body& body, const auto& after) {
    const te::Handle sums = reduce_stage(b, name + "_sum", Combiner::Sum, in[0].dims(), places, body);
    return b.map(name, work, sums.dims(), [&](auto i) {
      const te::Axis k = b.axis("k", size);
      std::vector<Expr> at(i.begin(), i.end());
      at[1] = floor_div(i[1], Expr(size)) * Expr(size) + Expr(k);
      return after(te::sum({k}, sums.at(std::move(at))) / count);
    });
  };
  const auto x = [&](auto i) { return cast(work, in[0].at({i.begin(), i.end()})); };
  const te::Handle mean = mean_of("mean", x, [](const Expr& e) { return e; });
  const auto square = [&](auto i) {
    const Expr d = x(i) - mean.broadcast(i);
    return d * d;
  };
  const te::Handle inverse = mean_of("inverse", square, [&](const Expr& variance) {
    return reciprocal_root(variance + Expr::real(work, c.real("epsilon")));
  });
  return b.finish({b.map("y", c.dtype(0), in[0].dims(), [&](auto i) {
    const Expr unit = (x(i) - mean.broadcast(i)) * inverse.broadcast(i);
    return cast(c.dtype(0), unit * cast(work, in[1](i[1])) + cast(work, in[2](i[1])));
  })});
}

// Opset 18 had one scale and one bias a group.
Imported import_group(ir::ForeignNode& node, ir::GraphBuilder& g) {
  const int64_t* groups = node.attrs.get<int64_t>("num_groups");
  if (node.version >= 21 || node.inputs.size() != 3 || !groups || *groups < 1) return add_as_is(node, g);
  for (const ir::Value& v : node.inputs)
    if (v.is_none()) return add_as_is(node, g);
  const Shape& x = g.type(node.inputs[0]).shape;
  if (!x.has_rank() || x.rank() < 2 || !x[1].is_const() || x[1].value() % *groups != 0)
    return Diagnostic("E-onnx-form", fmt::format("GroupNormalization of opset {} needs a known number of channels that "
                                                 "its {} groups divide, found the shape {}",
                                                 node.version, *groups, x.to_string()));
  const int64_t channels = x[1].value();
  const ir::Value spread = g.constant(Tensor::ints({*groups, channels / *groups}));
  const ir::Value column = g.constant(Tensor::ints({*groups, 1})), flat = g.constant(Tensor::ints({channels}));
  for (size_t i : {1, 2}) {
    ISOMER_TRY(const ir::Value tall, g.add1("reshape", {node.inputs[i], column}));
    ISOMER_TRY(const ir::Value wide, g.add1("expand", {tall, spread}));
    ISOMER_TRY(node.inputs[i], g.add1("reshape", {wide, flat}));
  }
  return add_as_is(node, g);
}

}  // namespace

ir::OpDef op_layer_normalization() {
  ir::OpDef op;
  op.name = "layer_normalization";
  op.doc = "Mean 0 and variance 1 over the axes from `axis` on, then scaled and shifted.";
  op.inputs = {{"x", "T", kFloats}, {"scale", "T", kFloats}, {"b", "T", kFloats, ir::Arity::Optional}};
  op.outputs = {
      {"y", "T"}, {"mean", "$stash_type", ir::Arity::Optional}, {"invstddev", "$stash_type", ir::Arity::Optional}};
  op.attrs = {{"axis", ir::AttrKind::Int, int64_t{-1}}, epsilon(), stash_type()};
  op.compute = layer_program;
  op.samples = {"layer_normalization(f32[2,3], f32[3])", "layer_normalization(f32[2,3,4], f32[3,4], f32[3,4]){axis=1}",
                "layer_normalization(f32[2,3], f32[2,3], f32[3]){axis=0,epsilon=0.1} -> 3"};
  op.onnx = {{.type = "LayerNormalization", .since = {17}, .stable = 17}};
  return op;
}

ir::OpDef op_rms_normalization() {
  ir::OpDef op;
  op.name = "rms_normalization";
  op.doc = "x divided by the root of its mean square over the axes from `axis` on, then scaled.";
  op.inputs = {{"x", "T", kFloats}, {"scale", "V", kFloats}};
  op.outputs = {{"y", "T"}};
  op.attrs = {{"axis", ir::AttrKind::Int, int64_t{-1}}, epsilon(), stash_type()};
  op.compute = rms_program;
  op.samples = {"rms_normalization(f32[2,3], f32[3])", "rms_normalization(f32[2,3,4], f32[3,4]){axis=-2}"};
  op.onnx = {{.type = "RMSNormalization", .since = {23}, .stable = 23}};
  return op;
}

ir::OpDef op_instance_normalization() {
  ir::OpDef op;
  op.name = "instance_normalization";
  op.doc = "Mean 0 and variance 1 over every channel of every sample, then scaled and shifted by channel.";
  op.inputs = {{"input", "T", kFloats}, {"scale", "T", kFloats}, {"b", "T", kFloats}};
  op.outputs = {{"output", "T"}};
  op.attrs = {epsilon()};
  op.compute = instance_program;
  op.samples = {"instance_normalization(f32[2,3,4], f32[3], f32[3])",
                "instance_normalization(f32[1,2,3,2], f32[2], f32[2]){epsilon=0.01}"};
  op.onnx = {{.type = "InstanceNormalization", .since = {1, 6, 22}, .stable = 6, .import = import_without_consumed}};
  return op;
}

ir::OpDef op_group_normalization() {
  ir::OpDef op;
  op.name = "group_normalization";
  op.doc = "Mean 0 and variance 1 over every group of channels of every sample, then scaled and shifted by channel.";
  op.inputs = {{"x", "T", kFloats}, {"scale", "T", kFloats}, {"bias", "T", kFloats}};
  op.outputs = {{"y", "T"}};
  op.attrs = {epsilon(), {.name = "num_groups", .kind = ir::AttrKind::Int, .required = true}, stash_type()};
  op.compute = group_program;
  op.samples = {"group_normalization(f32[2,4,3], f32[4], f32[4]){num_groups=2}",
                "group_normalization(f32[1,4], f32[4], f32[4]){num_groups=1,epsilon=0.01}"};
  op.onnx = {{.type = "GroupNormalization", .since = {18, 21}, .stable = 21, .import = import_group}};
  return op;
}

}  // namespace isomer::ops
