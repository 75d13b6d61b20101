#include "ops/conv.h"

#include <fmt/format.h>

#include "ir/op.h"

namespace isomer::ops {

using te::Expr;

std::vector<ir::AttrDef> conv_attrs() {
  using ir::AttrKind;
  return {{"auto_pad", AttrKind::String, std::string("NOTSET")},
          {.name = "dilations", .kind = AttrKind::Ints, .symbolic = true},
          {.name = "group", .kind = AttrKind::Int, .standard = int64_t{1}, .symbolic = true},
          {.name = "kernel_shape", .kind = AttrKind::Ints, .symbolic = true},
          {.name = "pads", .kind = AttrKind::Ints, .symbolic = true},
          {.name = "strides", .kind = AttrKind::Ints, .symbolic = true}};
}

namespace {

Expected<void> check_channels(const ir::OpContext& c, const Convolution& v, size_t w, size_t bias) {
  const Dim expected = v.channels_per_group * v.group;
  if (v.channels.is_const() && expected.is_const() && !(v.channels == expected))
    return c.error(fmt::format("the input has {} channels, but the weights {} with group {} take {}",
                               v.channels.to_string(), c.shape(w).to_string(), v.group.to_string(),
                               expected.to_string()));
  if (v.out_channels.is_const() && v.group.is_const() && v.out_channels.value() % v.group.value() != 0)
    return c.error(
        fmt::format("{} output channels cannot be divided into {} groups", v.out_channels.value(), v.group.value()));
  if (!c.has(bias)) return {};
  if (c.rank(bias) != 1 ||
      (c.dim(bias, 0).is_const() && v.out_channels.is_const() && !(c.dim(bias, 0) == v.out_channels)))
    return c.error(
        fmt::format("expected a bias of shape [{}], found {}", v.out_channels.to_string(), c.shape(bias).to_string()));
  return {};
}

}  // namespace

Expected<Convolution> convolution(const ir::OpContext& c, size_t x, size_t w, size_t bias) {
  ISOMER_TRY(const std::vector<Dim> input, spatial_dims(c, x));
  if (c.rank(w) != c.rank(x))
    return c.error(fmt::format("expected weights of rank {} as the input {} has, found {}", c.rank(x),
                               c.shape(x).to_string(), c.shape(w).to_string()));
  ISOMER_TRY(const std::vector<Dim> kernel, spatial_dims(c, w));
  if (const auto declared = c.sizes_attr("kernel_shape"); !declared.empty()) {
    bool fits = declared.size() == kernel.size();
    for (size_t i = 0; fits && i < kernel.size(); ++i)
      fits = !kernel[i].is_const() || !declared[i].is_const() || kernel[i] == declared[i];
    if (!fits)
      return c.error(
          fmt::format("kernel_shape does not agree with the weights {}; leave it out", c.shape(w).to_string()));
  }
  Convolution v;
  v.group = c.size_attr("group");
  if (v.group.is_const() && v.group.value() <= 0)
    return c.error(fmt::format("expected a positive group, found {}", v.group.value()));
  v.batch = c.dim(x, 0);
  v.channels = c.dim(x, 1);
  v.out_channels = c.dim(w, 0);
  v.channels_per_group = c.dim(w, 1);
  ISOMER_CHECK_OK(check_channels(c, v, w, bias));
  ISOMER_TRY(v.window, make_window(c, input, kernel));
  v.out = {v.batch, v.out_channels};
  v.out.insert(v.out.end(), v.window.out.begin(), v.window.out.end());
  return v;
}

Expr convolve(te::Builder& b, const Convolution& v, const te::Handle& x, const te::Handle& w, std::span<const Expr> i) {
  std::vector<te::Axis> axes = {b.axis("ic", v.channels_per_group)};
  const std::vector<te::Axis> taps = b.axes("k", v.window.kernel);
  axes.insert(axes.end(), taps.begin(), taps.end());
  const std::vector<Expr> k = te::exprs(taps);
  const auto o = i.subspan(2);
  const Expr ic(axes[0]);
  const Expr channel =
      v.group == Dim(1) ? ic
                        : floor_div(i[1], Expr(floor_div(v.out_channels, v.group))) * Expr(v.channels_per_group) + ic;
  std::vector<Expr> at_x = {i[0], channel}, at_w = {i[1], ic};
  const std::vector<Expr> p = v.window.positions(o, k);
  at_x.insert(at_x.end(), p.begin(), p.end());
  at_w.insert(at_w.end(), k.begin(), k.end());
  return te::sum(axes, x.at(at_x) * w.at(at_w), v.window.guard(o, k));
}

ir::OpDef op_conv() {
  ir::OpDef op;
  op.name = "conv";
  op.doc = "Convolution over any number of spatial axes, with groups, strides, dilations and zero padding.";
  op.inputs = {{"x", "T", kFloats}, {"w", "T", kFloats}, {"b", "T", kFloats, ir::Arity::Optional}};
  op.outputs = {{"y", "T"}};
  op.attrs = conv_attrs();
  op.compute = [](const ir::OpContext& c) -> Expected<te::Program> {
    te::Builder b;
    const auto in = c.declare(b);
    ISOMER_TRY(const Convolution v, convolution(c, 0, 1, 2));
    return b.finish({b.map("y", c.dtype(0), v.out, [&](auto i) {
      const Expr sum = convolve(b, v, in[0], in[1], i);
      return c.has(2) ? sum + in[2].at({i[1]}) : sum;
    })});
  };
  op.samples = {"conv(f32[1,2,5,5], f32[3,2,3,3], f32[3])",
                "conv(f32[2,4,7], f32[6,2,3]){group=2, strides=[2], pads=[1,2], dilations=[2]}",
                "conv(f32[1,2,6,5], f32[2,1,3,2]){group=2, auto_pad=\"SAME_LOWER\", strides=[2,1]}",
                "conv(f32[1,1,3,4,3], f32[2,1,2,2,2]){pads=[0,1,0,1,0,1]}"};
  op.onnx = {{.type = "Conv", .since = {1, 11, 22}}};
  return op;
}

}  // namespace isomer::ops
