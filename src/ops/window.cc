#include "ops/window.h"

#include <fmt/format.h>

#include "base/arithmetic.h"

namespace isomer::ops {
namespace {

using te::Expr;

// More taps than this in one pooling window is an attack, not a model.
constexpr int64_t kMaxTaps = int64_t{1} << 26;

Expected<std::vector<Dim>> positive(const ir::OpContext& c, const char* name, size_t spatial) {
  std::vector<Dim> v = c.op().attr(name) ? c.sizes_attr(name) : std::vector<Dim>();
  if (v.empty()) v.assign(spatial, Dim(1));
  if (v.size() != spatial)
    return c.error(fmt::format("expected {} values in {}, one per spatial axis, found {}", spatial, name, v.size()));
  for (const Dim& x : v)
    if (x.is_const() && x.value() <= 0) return c.error(fmt::format("expected positive {}, found {}", name, x.value()));
  return v;
}

Expected<AutoPad> auto_pad(const ir::OpContext& c) {
  const std::string& text = c.op().attr("auto_pad") ? c.text("auto_pad") : "NOTSET";
  if (text == "NOTSET" || text.empty()) return AutoPad::NotSet;
  if (text == "SAME_UPPER") return AutoPad::SameUpper;
  if (text == "SAME_LOWER") return AutoPad::SameLower;
  if (text == "VALID") return AutoPad::Valid;
  return c.error(fmt::format("auto_pad is {}, expected NOTSET, SAME_UPPER, SAME_LOWER or VALID", quoted(text)));
}

}  // namespace

Expected<WindowAttrs> window_attrs(const ir::OpContext& c, size_t spatial) {
  WindowAttrs a;
  ISOMER_TRY(a.stride, positive(c, "strides", spatial));
  ISOMER_TRY(a.dilation, positive(c, "dilations", spatial));
  ISOMER_TRY(a.auto_pad, auto_pad(c));
  a.ceil_mode = c.op().attr("ceil_mode") && c.flag("ceil_mode");
  std::vector<Dim> pads = a.auto_pad == AutoPad::NotSet ? c.sizes_attr("pads") : std::vector<Dim>();
  if (pads.empty()) pads.assign(2 * spatial, Dim(0));
  if (pads.size() != 2 * spatial)
    return c.error(fmt::format("expected {} pads, two per spatial axis, found {}", 2 * spatial, pads.size()));
  for (const Dim& p : pads)
    if (p.is_const() && p.value() < 0)
      return c.error(fmt::format("pad {} is negative; crop the input with a slice instead", p.value()));
  a.begin.assign(pads.begin(), pads.begin() + static_cast<ptrdiff_t>(spatial));
  a.end.assign(pads.begin() + static_cast<ptrdiff_t>(spatial), pads.end());
  return a;
}

Expected<Dim> dilated(const ir::OpContext& c, const Dim& kernel, const Dim& dilation) {
  if (kernel.is_const() && kernel.value() <= 0)
    return c.error(fmt::format("expected a kernel of positive extents, found {}", kernel.value()));
  const Dim extent = (kernel - Dim(1)) * dilation + Dim(1);
  if (extent.is_invalid() && !kernel.is_invalid())
    return c.error(fmt::format("a kernel of extent {} with dilation {} is too large to count", kernel.to_string(),
                               dilation.to_string()));
  return extent;
}

namespace {

// Output extent and pads of one axis.
Expected<void> slide(const ir::OpContext& c, const WindowAttrs& a, size_t i, Window& w) {
  const Dim& in = w.input[i];
  const Dim& stride = a.stride[i];
  ISOMER_TRY(const Dim extent, dilated(c, w.kernel[i], a.dilation[i]));
  Dim begin = a.begin[i], end = a.end[i], out;
  if (a.auto_pad == AutoPad::SameUpper || a.auto_pad == AutoPad::SameLower) {
    out = ceil_div(in, stride);
    const Dim total = max((out - Dim(1)) * stride + extent - in, Dim(0));
    const Dim less = floor_div(total, Dim(2));
    begin = a.auto_pad == AutoPad::SameUpper ? less : total - less;
    end = total - begin;
  } else {
    const Dim room = in + begin + end - extent;
    out = (a.ceil_mode ? ceil_div(room, stride) : floor_div(room, stride)) + Dim(1);
    // A window that would start in the padding after the input does not exist.
    if (a.ceil_mode) out = min(out, floor_div(in + begin - Dim(1), stride) + Dim(1));
  }
  if (out.is_invalid() && !in.is_invalid() && !w.kernel[i].is_invalid())
    return c.error(fmt::format("the extents of spatial axis {} are too large to count", i));
  if (out.is_const() && out.value() < 1)
    return c.error(
        fmt::format("on spatial axis {} the window of extent {} is larger than the padded input of extent {}", i,
                    extent.to_string(), (in + begin + end).to_string()));
  const Dim last = (out - Dim(1)) * stride + extent - begin - in;  // taps beyond the end of the input
  w.low.push_back(!(begin == Dim(0)));
  w.high.push_back(last.is_const() ? last.value() > 0 : (!(end == Dim(0)) || a.ceil_mode));
  w.begin.push_back(begin);
  w.end.push_back(end);
  w.out.push_back(out);
  return {};
}

}  // namespace

Expected<Window> make_window(const ir::OpContext& c, std::span<const Dim> input, std::span<const Dim> kernel) {
  if (kernel.size() != input.size())
    return c.error(
        fmt::format("expected a kernel of {} spatial extents as the input has, found {}", input.size(), kernel.size()));
  ISOMER_TRY(const WindowAttrs a, window_attrs(c, input.size()));
  Window w;
  w.input.assign(input.begin(), input.end());
  w.kernel.assign(kernel.begin(), kernel.end());
  w.stride = a.stride;
  w.dilation = a.dilation;
  w.ceil_mode = a.ceil_mode && (a.auto_pad == AutoPad::NotSet || a.auto_pad == AutoPad::Valid);
  for (size_t i = 0; i < input.size(); ++i) ISOMER_CHECK_OK(slide(c, a, i, w));
  return w;
}

Expr affine(const Expr& x, const Dim& scale, const Expr& y, const Dim& y_scale, const Dim& minus) {
  const auto scaled = [](const Expr& e, const Dim& s) { return s == Dim(1) ? e : e * Expr(s); };
  const Expr sum = scaled(x, scale) + scaled(y, y_scale);
  return minus == Dim(0) ? sum : sum - Expr(minus);
}

Expr Window::position(size_t i, const Expr& o, const Expr& k) const {
  return affine(o, stride[i], k, dilation[i], begin[i]);
}

std::vector<Expr> Window::positions(std::span<const Expr> o, std::span<const Expr> k) const {
  std::vector<Expr> p;
  for (size_t i = 0; i < rank(); ++i) p.push_back(position(i, o[i], k[i]));
  return p;
}

Expr Window::guard(std::span<const Expr> o, std::span<const Expr> k) const {
  std::vector<Expr> all;
  for (size_t i = 0; i < rank(); ++i) {
    if (low[i]) all.push_back(Expr(0) <= position(i, o[i], k[i]));
    if (high[i]) all.push_back(position(i, o[i], k[i]) < Expr(input[i]));
  }
  return all.empty() ? Expr() : te::all_of(all);
}

Expr Window::padded_guard(std::span<const Expr> o, std::span<const Expr> k) const {
  std::vector<Expr> all;
  for (size_t i = 0; i < rank() && ceil_mode; ++i) all.push_back(position(i, o[i], k[i]) < Expr(input[i] + end[i]));
  return all.empty() ? Expr() : te::all_of(all);
}

Expected<std::vector<Dim>> pool_kernel(const ir::OpContext& c, size_t spatial) {
  std::vector<Dim> k = c.sizes_attr("kernel_shape");
  if (k.size() != spatial)
    return c.error(fmt::format("expected a kernel_shape of {} extents as the input has spatial axes, found {}", spatial,
                               k.size()));
  int64_t taps = 1;
  for (const Dim& x : k) {
    if (!x.is_const()) continue;
    if (x.value() <= 0) return c.error(fmt::format("expected a kernel_shape of positive extents, found {}", x.value()));
    const auto product = checked_mul(taps, x.value());
    if (!product || *product > kMaxTaps)
      return c.error(fmt::format("a window has more than {} taps; reduce its kernel_shape", kMaxTaps));
    taps = *product;
  }
  return k;
}

Expected<void> check_pool_pads(const ir::OpContext& c, const Window& w) {
  for (size_t i = 0; i < w.rank(); ++i) {
    ISOMER_TRY(const Dim extent, dilated(c, w.kernel[i], w.dilation[i]));
    for (const Dim& pad : {w.begin[i], w.end[i]})
      if (pad.is_const() && extent.is_const() && pad.value() >= extent.value())
        return c.error(fmt::format("pad {} on spatial axis {} is not smaller than the window of extent {}", pad.value(),
                                   i, extent.value()));
  }
  return {};
}

Expected<std::vector<Dim>> spatial_dims(const ir::OpContext& c, size_t input) {
  if (c.rank(input) < 3)
    return c.error(fmt::format("expected input '{}' as batch, channels and one or more spatial axes, found shape {}",
                               c.op().inputs[input].name, c.shape(input).to_string()));
  return std::vector<Dim>(c.shape(input).dims().begin() + 2, c.shape(input).dims().end());
}

}  // namespace isomer::ops
