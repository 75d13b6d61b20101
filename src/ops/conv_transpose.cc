#include <fmt/format.h>

#include "ir/op.h"
#include "ops/conv.h"

namespace isomer::ops {
namespace {

using te::Expr;

struct Transposed {
  WindowAttrs attrs;
  std::vector<Dim> kernel, begin;
  std::vector<Dim> out;  // [N, O, spatial...]
  Dim group = 1;
  Dim channels_per_group, out_per_group;
};

// Output extent and padding before the start on one axis; `wanted` is the attribute output_shape's value there.
Expected<void> extend(const ir::OpContext& c, size_t i, const Dim& more, const std::optional<int64_t>& wanted,
                      Transposed& t) {
  const Dim& in = c.dim(0, 2 + i);
  const Dim& stride = t.attrs.stride[i];
  ISOMER_TRY(const Dim extent, dilated(c, t.kernel[i], t.attrs.dilation[i]));
  const Dim full = (in - Dim(1)) * stride + more + extent;
  Dim begin = t.attrs.begin[i], out = full - begin - t.attrs.end[i];
  const bool same = t.attrs.auto_pad == AutoPad::SameUpper || t.attrs.auto_pad == AutoPad::SameLower;
  if (wanted || same) {
    out = wanted ? Dim(*wanted) : in * stride;
    const Dim total = max(full - out, Dim(0));
    const Dim less = floor_div(total, Dim(2));
    begin = t.attrs.auto_pad == AutoPad::SameUpper ? less : total - less;
  }
  if (full.is_invalid() && !in.is_invalid() && !t.kernel[i].is_invalid())
    return c.error(fmt::format("the extents of spatial axis {} are too large to count", i));
  if (out.is_const() && out.value() < 1)
    return c.error(fmt::format("spatial axis {} of the output would have extent {}; reduce the pads", i, out.value()));
  t.begin.push_back(begin);
  t.out.push_back(out);
  return {};
}

Expected<std::vector<int64_t>> per_spatial_axis(const ir::OpContext& c, const char* name, size_t spatial) {
  std::vector<int64_t> v = c.ints(name);
  // Some writers put the whole shape, batch and channels included.
  if (std::string_view(name) == "output_shape" && v.size() == spatial + 2) v.erase(v.begin(), v.begin() + 2);
  if (!v.empty() && v.size() != spatial)
    return c.error(fmt::format("expected {} values in {}, one per spatial axis, found {}", spatial, name, v.size()));
  for (int64_t x : v)
    if (x < 0) return c.error(fmt::format("expected no negative {}, found {}", name, x));
  return v;
}

Expected<void> check_channels(const ir::OpContext& c, const Transposed& t) {
  const Dim& channels = c.dim(0, 1);
  if (channels.is_const() && c.dim(1, 0).is_const() && !(channels == c.dim(1, 0)))
    return c.error(fmt::format("the input has {} channels, but the weights {} take {}", channels.value(),
                               c.shape(1).to_string(), c.dim(1, 0).value()));
  for (const Dim& d : {channels, c.dim(1, 0)})
    if (d.is_const() && t.group.is_const() && d.value() % t.group.value() != 0)
      return c.error(fmt::format("{} input channels cannot be divided into {} groups", d.value(), t.group.value()));
  if (t.out[1].is_invalid() && !t.out_per_group.is_invalid()) return c.error("too many output channels to count");
  if (!c.has(2)) return {};
  if (c.rank(2) != 1 || (c.dim(2, 0).is_const() && t.out[1].is_const() && !(c.dim(2, 0) == t.out[1])))
    return c.error(
        fmt::format("expected a bias of shape [{}], found {}", t.out[1].to_string(), c.shape(2).to_string()));
  return {};
}

Expected<Transposed> transposed(const ir::OpContext& c) {
  ISOMER_TRY(const std::vector<Dim> input, spatial_dims(c, 0));
  const size_t n = input.size();
  if (c.rank(1) != c.rank(0))
    return c.error(fmt::format("expected weights of rank {} as the input {} has, found {}", c.rank(0),
                               c.shape(0).to_string(), c.shape(1).to_string()));
  Transposed t;
  ISOMER_TRY(t.kernel, spatial_dims(c, 1));
  if (const auto declared = c.sizes_attr("kernel_shape"); !declared.empty()) {
    bool fits = declared.size() == n;
    for (size_t i = 0; fits && i < n; ++i)
      fits = !t.kernel[i].is_const() || !declared[i].is_const() || t.kernel[i] == declared[i];
    if (!fits)
      return c.error(
          fmt::format("kernel_shape does not agree with the weights {}; leave it out", c.shape(1).to_string()));
  }
  ISOMER_TRY(t.attrs, window_attrs(c, n));
  t.group = c.size_attr("group");
  if (t.group.is_const() && t.group.value() <= 0)
    return c.error(fmt::format("expected a positive group, found {}", t.group.value()));
  ISOMER_TRY(const std::vector<int64_t> more, per_spatial_axis(c, "output_padding", n));
  ISOMER_TRY(const std::vector<int64_t> wanted, per_spatial_axis(c, "output_shape", n));
  t.out_per_group = c.dim(1, 1);
  t.channels_per_group = floor_div(c.dim(1, 0), t.group);
  t.out = {c.dim(0, 0), t.out_per_group * t.group};
  ISOMER_CHECK_OK(check_channels(c, t));
  for (size_t i = 0; i < n; ++i)
    ISOMER_CHECK_OK(
        extend(c, i, more.empty() ? 0 : more[i], wanted.empty() ? std::nullopt : std::optional<int64_t>(wanted[i]), t));
  return t;
}

// Every input element is spread over a window: seen from an output element, tap k of it came from the input position
// (o + begin - k * dilation) / stride, when that is one.
Expr spread_sum(te::Builder& b, const ir::OpContext& c, const Transposed& t, const te::Handle& x, const te::Handle& w,
                std::span<const Expr> i) {
  std::vector<te::Axis> axes = {b.axis("ic", t.channels_per_group)};
  const std::vector<te::Axis> taps = b.axes("k", t.kernel);
  axes.insert(axes.end(), taps.begin(), taps.end());
  const Expr ic(axes[0]);
  const Expr g = floor_div(i[1], Expr(t.out_per_group));
  const Expr channel = t.group == Dim(1) ? ic : g * Expr(t.channels_per_group) + ic;
  const Expr own = t.group == Dim(1) ? i[1] : floor_mod(i[1], Expr(t.out_per_group));
  std::vector<Expr> at_x = {i[0], channel}, at_w = {channel, own}, guards;
  for (size_t a = 0; a < taps.size(); ++a) {
    const Dim &stride = t.attrs.stride[a], &dilation = t.attrs.dilation[a];
    const Expr shifted = t.begin[a] == Dim(0) ? i[2 + a] : i[2 + a] + Expr(t.begin[a]);
    const Expr from = shifted - (dilation == Dim(1) ? Expr(taps[a]) : Expr(taps[a]) * Expr(dilation));
    guards.push_back(te::in_range(from, Expr(c.dim(0, 2 + a) * stride)));
    if (!(stride == Dim(1))) guards.push_back(eq(floor_mod(from, Expr(stride)), Expr(0)));
    at_x.push_back(stride == Dim(1) ? from : floor_div(from, Expr(stride)));
    at_w.emplace_back(taps[a]);
  }
  return te::sum(axes, x.at(at_x) * w.at(at_w), te::all_of(guards));
}

}  // namespace

ir::OpDef op_conv_transpose() {
  ir::OpDef op;
  op.name = "conv_transpose";
  op.doc = "Transposed convolution: the gradient of a convolution with respect to its input.";
  op.inputs = {{"x", "T", kFloats}, {"w", "T", kFloats}, {"b", "T", kFloats, ir::Arity::Optional}};
  op.outputs = {{"y", "T"}};
  op.attrs = conv_attrs();
  op.attrs.push_back({"output_padding", ir::AttrKind::Ints});
  op.attrs.push_back({"output_shape", ir::AttrKind::Ints});
  op.compute = [](const ir::OpContext& c) -> Expected<te::Program> {
    te::Builder b;
    const auto in = c.declare(b);
    ISOMER_TRY(const Transposed t, transposed(c));
    return b.finish({b.map("y", c.dtype(0), t.out, [&](auto i) {
      const Expr sum = spread_sum(b, c, t, in[0], in[1], i);
      return c.has(2) ? sum + in[2].at({i[1]}) : sum;
    })});
  };
  op.samples = {"conv_transpose(f32[1,2,3,3], f32[2,3,3,3], f32[3])",
                "conv_transpose(f32[1,4,3], f32[4,2,3]){group=2, strides=[2], pads=[1,0], output_padding=[1]}",
                "conv_transpose(f32[1,1,3,3], f32[1,2,2,3]){auto_pad=\"SAME_UPPER\", strides=[2,2]}",
                "conv_transpose(f32[1,1,3], f32[1,1,3]){output_shape=[8], strides=[3], dilations=[2]}"};
  op.onnx = {{.type = "ConvTranspose", .since = {1, 11, 22}}};
  return op;
}

}  // namespace isomer::ops
