#include <fmt/format.h>

#include <cmath>
#include <numeric>

#include "ops/resize.h"
#include "ops/shape_operand.h"

namespace isomer::ops {
namespace {

bool given(const ir::OpContext& c, size_t i) { return c.has(i) && !(c.rank(i) == 1 && c.dim(i, 0) == Dim(0)); }

// floor(in * scale); single precision for numbers, as the format's own rule is. A symbol times a scale is followed
// when the scale is a fraction with a small power of two below.
Expected<Dim> scaled(const ir::OpContext& c, const Dim& in, double scale) {
  if (!(scale > 0) || !std::isfinite(scale)) return c.error(fmt::format("a scale is {}, expected more than 0", scale));
  if (in.is_const()) {
    const float n = std::floor(static_cast<float>(in.value()) * static_cast<float>(scale));
    if (!(n <= static_cast<float>(kMaxTensorBytes)))
      return c.error(fmt::format("an extent of {} times {} is too large", in.value(), scale));
    return Dim(static_cast<int64_t>(n));
  }
  for (int64_t below = 1; below <= 1024; below *= 2) {
    const double above = scale * static_cast<double>(below);
    if (above == std::floor(above) && above < 1e9) return floor_div(in * Dim(static_cast<int64_t>(above)), Dim(below));
  }
  return Dim::invalid();
}

Expected<void> check_listed(const ir::OpContext& c, size_t i, size_t count) {
  if (c.rank(i) != 1 || (c.dim(i, 0).is_const() && c.dim(i, 0).value() != static_cast<int64_t>(count)))
    return c.error(fmt::format("input '{}' must be a vector of {} numbers, found {}", c.op().inputs[i].name, count,
                               c.type(i).to_string()));
  return {};
}

// One scale for all listed axes, so that the shape of the picture stays.
Expected<void> keep_aspect_ratio(const ir::OpContext& c, std::vector<Resampling>& all) {
  const std::string& policy = c.text("keep_aspect_ratio_policy");
  if (policy == "stretch") return {};
  if (policy != "not_larger" && policy != "not_smaller")
    return c.error(
        fmt::format("keep_aspect_ratio_policy {} is none of stretch, not_larger, not_smaller", quoted(policy)));
  std::optional<double> scale;
  for (const Resampling& r : all) {
    if (!r.place) continue;
    if (!r.in.is_const() || !r.out.is_const() || r.in.value() == 0) {
      for (Resampling& s : all)
        if (s.place) s.out = Dim::invalid();
      return {};
    }
    const double own = static_cast<double>(r.out.value()) / static_cast<double>(r.in.value());
    scale = !scale ? own : policy == "not_larger" ? std::min(*scale, own) : std::max(*scale, own);
  }
  for (Resampling& r : all) {
    if (!r.place) continue;
    const double n = std::floor(*scale * static_cast<double>(r.in.value()) + 0.5);
    if (!(n <= static_cast<double>(kMaxTensorBytes))) return c.error("the sizes ask for a result that is too large");
    r.out = Dim(static_cast<int64_t>(n));
    r.scale = scale;
    r.by_size = false;
  }
  return {};
}

Expected<std::vector<Resampling>> by_scales(const ir::OpContext& c, std::vector<Resampling> all) {
  const Tensor* scales = c.value(2);
  for (Resampling& r : all) {
    if (!r.place) continue;
    r.out = Dim::invalid();
    r.scale.reset();
    if (!scales) continue;
    r.scale = scales->real(static_cast<int64_t>(*r.place));
    ISOMER_TRY(r.out, scaled(c, r.in, *r.scale));
  }
  return all;
}

Expected<std::vector<Resampling>> by_sizes(const ir::OpContext& c, std::vector<Resampling> all) {
  ISOMER_TRY(const Shape sizes, size_operand(c, 3));
  for (Resampling& r : all) {
    if (!r.place) continue;
    r.by_size = true;
    r.scale.reset();
    r.out = sizes.has_rank() ? sizes[*r.place] : Dim::invalid();
    if (r.out == r.in && !r.in.is_const()) r.scale = 1;
    if (!r.out.is_const() || !r.in.is_const()) continue;
    if (r.in.value() == 0 && r.out.value() > 0) return c.error("an empty axis cannot be made larger");
    r.scale = r.in.value() == 0 ? 1 : static_cast<double>(r.out.value()) / static_cast<double>(r.in.value());
  }
  ISOMER_CHECK_OK(keep_aspect_ratio(c, all));
  return all;
}

}  // namespace

Expected<std::vector<Resampling>> resamplings(const ir::OpContext& c) {
  std::vector<size_t> axes(c.rank(0));
  std::iota(axes.begin(), axes.end(), size_t{0});
  if (c.has_attr("axes")) {
    ISOMER_TRY(axes, resolve_axes(c, c.ints("axes"), c.rank(0)));
  }
  if (given(c, 2) == given(c, 3)) return c.error("expected exactly one of the inputs 'scales' and 'sizes'");
  ISOMER_CHECK_OK(check_listed(c, given(c, 2) ? 2 : 3, axes.size()));
  if (c.text("coordinate_transformation_mode") == "tf_crop_and_resize") {
    if (!given(c, 1)) return c.error("tf_crop_and_resize needs input 'roi'");
    ISOMER_CHECK_OK(check_listed(c, 1, 2 * axes.size()));
  }
  std::vector<Resampling> all;
  for (const Dim& d : c.shape(0).dims()) all.push_back({d, d, false, 1.0, std::nullopt, axes.size()});
  for (size_t k = 0; k < axes.size(); ++k) all[axes[k]].place = k;
  return given(c, 2) ? by_scales(c, std::move(all)) : by_sizes(c, std::move(all));
}

te::Expr position(const ir::OpContext& c, const Resampling& axis, const te::Expr& i, const te::Handle* roi, DType t) {
  using te::Expr;
  const std::string& mode = c.text("coordinate_transformation_mode");
  const auto real = [&](double v) { return Expr::real(t, v); };
  const auto size = [&](const Dim& d) {
    return d.is_const() ? real(static_cast<double>(d.value())) : te::cast(t, Expr(d));
  };
  const Expr x = te::cast(t, i), in = size(axis.in);
  // x / scale, without the rounding of the scale where it is a quotient of sizes.
  const auto unscaled = [&](const Expr& v) { return axis.by_size ? v * in / size(axis.out) : v / real(*axis.scale); };
  const Expr width = axis.by_size ? size(axis.out) : in * real(*axis.scale);
  const Expr half_pixel = unscaled(x + real(0.5)) - real(0.5);
  if (mode == "asymmetric") return unscaled(x);
  if (mode == "tf_half_pixel_for_nn") return unscaled(x + real(0.5));
  if (mode == "pytorch_half_pixel") return te::select(Expr(axis.out) <= Expr(1), real(0), half_pixel);
  if (mode == "align_corners")
    return te::select(te::eq(width, real(1)), real(0), x * (in - real(1)) / (width - real(1)));
  if (mode == "half_pixel_symmetric") return in * real(0.5) * (real(1) - size(axis.out) / width) + half_pixel;
  if (mode == "tf_crop_and_resize" && axis.place) {
    const Expr from = te::cast(t, (*roi)(static_cast<int64_t>(*axis.place)));
    const Expr to = te::cast(t, (*roi)(static_cast<int64_t>(axis.listed + *axis.place)));
    const Expr extent = (to - from) * (in - real(1));
    return from * (in - real(1)) +
           te::select(te::eq(width, real(1)), extent * real(0.5), x * extent / (width - real(1)));
  }
  return mode == "tf_crop_and_resize" ? x : half_pixel;
}

}  // namespace isomer::ops
