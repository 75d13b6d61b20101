#include <fmt/format.h>

#include "ir/op.h"
#include "ops/conv.h"

namespace isomer::ops {
namespace {

using te::Expr;

struct Deformed {
  Convolution conv;
  int64_t offset_group = 1;
  Dim taps;  // of one window
};

Expected<void> check_like(const ir::OpContext& c, size_t input, const std::vector<Dim>& expected) {
  bool fits = c.rank(input) == expected.size();
  for (size_t i = 0; fits && i < expected.size(); ++i)
    fits = !c.dim(input, i).is_const() || !expected[i].is_const() || c.dim(input, i) == expected[i];
  if (fits) return {};
  return c.error(fmt::format("expected {} of shape {}, found {}", c.op().inputs[input].name,
                             Shape(expected).to_string(), c.shape(input).to_string()));
}

Expected<Deformed> deformed(const ir::OpContext& c) {
  Deformed d;
  ISOMER_TRY(d.conv, convolution(c, 0, 1, 3));
  const auto n = static_cast<int64_t>(d.conv.window.rank());
  // A tap reads between 2^n elements.
  if (n > 4) return c.error(fmt::format("expected at most 4 spatial axes, found {}", n));
  d.offset_group = c.integer("offset_group");
  if (d.offset_group <= 0) return c.error(fmt::format("expected a positive offset_group, found {}", d.offset_group));
  if (d.conv.channels.is_const() && d.conv.channels.value() % d.offset_group != 0)
    return c.error(
        fmt::format("{} channels cannot be divided into {} offset groups", d.conv.channels.value(), d.offset_group));
  d.taps = Dim(1);
  for (const Dim& k : d.conv.window.kernel) d.taps = d.taps * k;
  std::vector<Dim> like = d.conv.out;
  like[1] = d.taps * Dim(d.offset_group) * Dim(n);
  ISOMER_CHECK_OK(check_like(c, 2, like));
  like[1] = d.taps * Dim(d.offset_group);
  if (c.has(4)) ISOMER_CHECK_OK(check_like(c, 4, like));
  return d;
}

// x at a real position, linear between its neighbours on every axis; elements outside count as 0.
Expr interpolate(const te::Handle& x, const Expr& n, const Expr& channel, const std::vector<Expr>& position,
                 const std::vector<Dim>& extent) {
  const DType t = x.dtype();
  Expr total;
  for (size_t corner = 0; corner < (size_t{1} << position.size()); ++corner) {
    std::vector<Expr> at = {n, channel}, inside;
    Expr weight = Expr::real(t, 1);
    for (size_t a = 0; a < position.size(); ++a) {
      const Expr low = floor(position[a]), part = position[a] - low;
      const bool high = (corner >> a) & 1;
      const Expr i = cast(DType::I64, low) + Expr(high ? 1 : 0);
      at.push_back(i);
      inside.push_back(te::in_range(i, Expr(extent[a])));
      weight = weight * (high ? part : Expr::real(t, 1) - part);
    }
    const Expr term = select(te::all_of(inside), x.at(at) * weight, Expr::real(t, 0));
    total = total.empty() ? term : total + term;
  }
  return total;
}

Expr deform(te::Builder& b, const ir::OpContext& c, const Deformed& d, std::span<const te::Handle> in,
            std::span<const Expr> i) {
  const Convolution& v = d.conv;
  std::vector<te::Axis> axes = {b.axis("ic", v.channels_per_group)};
  const std::vector<te::Axis> taps = b.axes("k", v.window.kernel);
  axes.insert(axes.end(), taps.begin(), taps.end());
  const std::vector<Expr> k = te::exprs(taps);
  const Expr ic(axes[0]);
  const Expr channel =
      v.group == Dim(1) ? ic
                        : floor_div(i[1], Expr(floor_div(v.out_channels, v.group))) * Expr(v.channels_per_group) + ic;
  const Expr offset_group = floor_div(channel, Expr(floor_div(v.channels, Dim(d.offset_group))));
  const Expr tap = offset_group * Expr(d.taps) + te::flatten(k, v.window.kernel);
  const auto n = static_cast<int64_t>(taps.size());
  // A tensor over the output positions, read at one of its channels.
  const auto beside = [&](const te::Handle& h, const Expr& at_channel) {
    std::vector<Expr> at(i.begin(), i.end());
    at[1] = at_channel;
    return h.at(at);
  };
  std::vector<Expr> position;
  for (size_t a = 0; a < taps.size(); ++a)
    position.push_back(cast(c.dtype(0), v.window.position(a, i[2 + a], k[a])) +
                       beside(in[2], tap * Expr(n) + Expr(static_cast<int64_t>(a))));
  std::vector<Expr> at_w = {i[1], ic};
  at_w.insert(at_w.end(), k.begin(), k.end());
  Expr term = interpolate(in[0], i[0], channel, position, v.window.input) * in[1].at(at_w);
  if (c.has(4)) term = term * beside(in[4], tap);
  const Expr sum = te::sum(axes, term);
  return c.has(3) ? sum + in[3].at({i[1]}) : sum;
}

}  // namespace

ir::OpDef op_deform_conv() {
  ir::OpDef op;
  op.name = "deform_conv";
  op.doc = "Convolution whose taps are moved by learned offsets and read between elements.";
  op.inputs = {{"x", "T", kFloats},
               {"w", "T", kFloats},
               {"offset", "T", kFloats},
               {"b", "T", kFloats, ir::Arity::Optional},
               {"mask", "T", kFloats, ir::Arity::Optional}};
  op.outputs = {{"y", "T"}};
  op.attrs = {{"dilations", ir::AttrKind::Ints},    {"group", ir::AttrKind::Int, int64_t{1}},
              {"kernel_shape", ir::AttrKind::Ints}, {"offset_group", ir::AttrKind::Int, int64_t{1}},
              {"pads", ir::AttrKind::Ints},         {"strides", ir::AttrKind::Ints}};
  op.compute = [](const ir::OpContext& c) -> Expected<te::Program> {
    te::Builder b;
    const auto in = c.declare(b);
    ISOMER_TRY(const Deformed d, deformed(c));
    return b.finish({b.map("y", c.dtype(0), d.conv.out, [&](auto i) { return deform(b, c, d, in, i); })});
  };
  op.samples = {"deform_conv(f32[1,1,3,3], f32[1,1,2,2], f32[1,8,2,2])",
                "deform_conv(f32[1,2,4,4], f32[2,1,2,2], f32[1,16,5,5], f32[2], f32[1,8,5,5])"
                "{group=2, offset_group=2, pads=[1,1,1,1]}"};
  op.onnx = {{.type = "DeformConv", .since = {19, 22}, .stable = 19}};
  return op;
}

}  // namespace isomer::ops
