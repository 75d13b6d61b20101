#include "ops/resize.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "ops/interpolation.h"
#include "ops/legacy_inputs.h"
#include "ops/shape_operand.h"

namespace isomer::ops {
namespace {

using te::Expr;

bool crops(const ir::OpContext& c) { return c.text("coordinate_transformation_mode") == "tf_crop_and_resize"; }

Expected<void> one_of(const ir::OpContext& c, const char* attribute, std::initializer_list<std::string_view> words) {
  const std::string& word = c.text(attribute);
  if (std::find(words.begin(), words.end(), word) != words.end()) return {};
  return c.error(fmt::format("{} {} is none of {}", attribute, quoted(word), fmt::join(words, ", ")));
}

Expected<void> check_attributes(const ir::OpContext& c) {
  ISOMER_CHECK_OK(one_of(c, "mode", {"nearest", "linear", "cubic"}));
  ISOMER_CHECK_OK(one_of(c, "nearest_mode", {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"}));
  return one_of(c, "coordinate_transformation_mode",
                {"half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric",
                 "tf_half_pixel_for_nn", "tf_crop_and_resize"});
}

// The input index when it is a whole number by construction; empty when positions must be computed.
Expr whole_index(const ir::OpContext& c, const Resampling& r, const Expr& i) {
  const std::string& mode = c.text("coordinate_transformation_mode");
  const std::string& round = c.text("nearest_mode");
  const double s = *r.scale;
  const bool exact = r.out == r.in * Dim(static_cast<int64_t>(s < 1e6 ? s : 1));
  const bool corner = mode == "asymmetric" && round == "floor";
  const bool centre = mode.find("half_pixel") != std::string::npos && mode != "tf_half_pixel_for_nn" &&
                      round.starts_with("round") && (mode != "pytorch_half_pixel" || r.in.is_const());
  if (s >= 1 && s == std::floor(s) && exact && (corner || centre)) return te::floor_div(i, static_cast<int64_t>(s));
  if (mode == "asymmetric" && s < 1 && 1 / s == std::floor(1 / s) && 1 / s < 1e6)
    return i * Expr(static_cast<int64_t>(1 / s));
  return {};
}

Expr nearest_index(const ir::OpContext& c, const Resampling& r, const Expr& i, const Expr& x) {
  const std::string& round = c.text("nearest_mode");
  if (r.scale && !crops(c))
    if (const Expr whole = whole_index(c, r, i); !whole.empty()) return whole;
  const Expr half = Expr::real(x.dtype(), 0.5);
  const Expr at = round == "floor"               ? te::floor(x)
                  : round == "ceil"              ? te::ceil(x)
                  : round == "round_prefer_ceil" ? te::floor(x + half)
                                                 : te::ceil(x - half);
  return clamped(te::cast(DType::I64, at), Expr(r.in));
}

// The extrapolation value where x lies outside the input, which only cropping allows.
Expr or_outside(const ir::OpContext& c, const Resampling& r, const Expr& x, const Expr& value) {
  if (!crops(c)) return value;
  const Expr last = te::cast(x.dtype(), Expr(r.in) - Expr(1));
  return te::select(Expr::real(x.dtype(), 0) <= x && x <= last, value,
                    Expr::literal(value.dtype(), c.real("extrapolation_value")));
}

te::Program nearest(const ir::OpContext& c, const std::vector<Resampling>& all, const std::vector<Dim>& dims) {
  te::Builder b;
  const auto in = c.declare(b);
  const DType real = sampling_type(c.dtype(0));
  const te::Handle* roi = c.has(1) ? &in[1] : nullptr;
  return b.finish({b.map("y", c.dtype(0), dims, [&](auto i) {
    std::vector<Expr> index(i.begin(), i.end()), at(all.size());
    for (size_t a = 0; a < all.size(); ++a) {
      if (all[a].same() && !(crops(c) && all[a].place)) continue;
      at[a] = position(c, all[a], i[a], roi, real);
      index[a] = nearest_index(c, all[a], i[a], at[a]);
    }
    Expr value = in[0].at(index);
    for (size_t a = 0; a < all.size(); ++a)
      if (!at[a].empty()) value = or_outside(c, all[a], at[a], value);
    return value;
  })});
}

// The points an axis's result reads, relative to the one below its position: first .. first + count - 1.
struct FilterTaps {
  int64_t first = 0, count = 2;
  double squeeze = 1;  // distances are multiplied by it: less than 1 where antialias widens the filter
};

Expected<FilterTaps> filter_taps(const ir::OpContext& c, const Resampling& r) {
  const double reach = c.text("mode") == "cubic" ? 2 : 1;
  FilterTaps t;
  if (c.flag("antialias")) {
    if (!r.scale) return needs_value(c, c.has(3) ? 3 : 2);
    t.squeeze = std::min(*r.scale, 1.0);
  }
  const double below = std::floor(-reach / t.squeeze) + 1;
  if (!(below > -(1 << 20))) return c.error(fmt::format("a scale of {} is too small to antialias", *r.scale));
  t.first = static_cast<int64_t>(below);
  t.count = 2 - 2 * t.first;
  return t;
}

// One axis resampled by a weighted sum of its points.
te::Handle resample(te::Builder& b, const ir::OpContext& c, const te::Handle& x, const te::Handle* roi, size_t axis,
                    const Resampling& r, const FilterTaps& t, DType result) {
  const DType real = sampling_type(c.dtype(0));
  std::vector<Dim> dims = x.dims();
  dims[axis] = r.out;
  const te::Axis k = b.axis("k", Dim(t.count)), n = b.axis("n", Dim(t.count));
  return b.map(fmt::format("along{}", axis), result, dims, [&](auto i) {
    const Expr at = position(c, r, i[axis], roi, real), below = te::floor(at);
    const auto place = [&](const te::Axis& tap) { return te::cast(DType::I64, below) + Expr(t.first) + Expr(tap); };
    const auto weight = [&](const te::Axis& tap) {
      Expr d = te::abs(te::cast(real, Expr(t.first) + Expr(tap)) - (at - below));
      if (t.squeeze != 1) d = d * Expr::real(real, t.squeeze);
      return c.text("mode") == "cubic" ? cubic_weight(d, c.real("cubic_coeff_a")) : linear_weight(d);
    };
    const auto counts = [&](const te::Axis& tap) {
      return c.flag("exclude_outside") ? te::in_range(place(tap), Expr(r.in)) : te::truth(true);
    };
    std::vector<Expr> index(i.begin(), i.end());
    index[axis] = clamped(place(k), Expr(r.in));
    Expr value = te::sum({k}, weight(k) * te::cast(real, x.at(std::move(index))), counts(k));
    if (c.flag("antialias") || c.flag("exclude_outside")) value = value / te::sum({n}, weight(n), counts(n));
    return te::cast(result, or_outside(c, r, at, value));
  });
}

Expected<te::Program> weighted(const ir::OpContext& c, const std::vector<Resampling>& all,
                               const std::vector<Dim>& dims) {
  te::Builder b;
  const auto in = c.declare(b);
  const te::Handle* roi = c.has(1) ? &in[1] : nullptr;
  std::vector<size_t> changed;
  for (size_t a = 0; a < all.size(); ++a)
    if (!all[a].same() || (crops(c) && all[a].place)) changed.push_back(a);
  te::Handle x = in[0];
  for (size_t k = changed.size(); k-- > 0;) {
    const size_t a = changed[k];
    ISOMER_TRY(const FilterTaps t, filter_taps(c, all[a]));
    x = resample(b, c, x, roi, a, all[a], t, k == 0 ? c.dtype(0) : sampling_type(c.dtype(0)));
  }
  if (changed.empty()) x = b.map("y", c.dtype(0), dims, [&](auto i) { return in[0].at({i.begin(), i.end()}); });
  return b.finish({x});
}

Expected<te::Program> resize(const ir::OpContext& c) {
  ISOMER_CHECK_OK(check_attributes(c));
  ISOMER_TRY(const std::vector<Resampling> all, resamplings(c));
  std::vector<Dim> dims;
  for (const Resampling& r : all) dims.push_back(r.out);
  ISOMER_TRY(const std::vector<Dim> known, known_dims(c, Shape(dims), c.has(3) ? 3 : 2));
  if (c.text("mode") == "nearest") return nearest(c, all, known);
  return weighted(c, all, known);
}

// Opset 10 and Upsample take scales alone and mean corners that lie on each other, rounded down.
Expected<std::vector<ir::Value>> import_scales(ir::ForeignNode& node, ir::GraphBuilder& builder) {
  if (node.type == "Resize" && node.version >= 11) return ir::add_as_is(node, builder);
  if (node.version < 7) {
    const double h = take_real(node, "height_scale").value_or(1), w = take_real(node, "width_scale").value_or(1);
    put_input(node, 1, builder.constant(Tensor::of<double>(DType::F32, {4}, {1, 1, h, w})));
  } else if (const auto* scales = node.attrs.get<std::vector<double>>("scales"); scales && node.version < 9) {
    put_input(node, 1, builder.constant(Tensor::of(DType::F32, {static_cast<int64_t>(scales->size())}, *scales)));
    node.attrs.erase("scales");
  }
  if (node.inputs.size() != 2) return Diagnostic("E-op", "resize: expected an input and scales");
  node.inputs.insert(node.inputs.begin() + 1, ir::Value::none());
  if (const std::string* mode = node.attrs.get<std::string>("mode"); mode && *mode != "nearest")
    node.attrs.set("mode", std::string(*mode == "bilinear" ? "linear" : *mode));
  node.attrs.set("coordinate_transformation_mode", std::string("asymmetric"));
  node.attrs.set("nearest_mode", std::string("floor"));
  return ir::add_as_is(node, builder);
}

}  // namespace

ir::OpDef op_resize() {
  ir::OpDef op;
  op.name = "resize";
  op.doc = "Resamples the given axes to new extents, by the nearest point or by linear or cubic weights.";
  op.inputs = {{"x", "T", kAllTypes},
               {"roi", "R", DTypeSet(DType::F32) | DType::F64 | DType::F16 | DType::BF16, ir::Arity::Optional},
               {"scales", "S", DType::F32, ir::Arity::Optional},
               {"sizes", "N", DType::I64, ir::Arity::Optional}};
  op.outputs = {{"y", "T"}};
  op.attrs = {{"antialias", ir::AttrKind::Int, int64_t{0}},
              {"axes", ir::AttrKind::Ints},
              {"coordinate_transformation_mode", ir::AttrKind::String, std::string("half_pixel")},
              {"cubic_coeff_a", ir::AttrKind::Real, -0.75},
              {"exclude_outside", ir::AttrKind::Int, int64_t{0}},
              {"extrapolation_value", ir::AttrKind::Real, 0.0},
              {"keep_aspect_ratio_policy", ir::AttrKind::String, std::string("stretch")},
              {"mode", ir::AttrKind::String, std::string("nearest")},
              {"nearest_mode", ir::AttrKind::String, std::string("round_prefer_floor")}};
  op.infer = [](const ir::OpContext& c) -> Expected<std::vector<Type>> {
    ISOMER_CHECK_OK(check_attributes(c));
    ISOMER_TRY(const std::vector<Resampling> all, resamplings(c));
    std::vector<Dim> dims;
    for (const Resampling& r : all) dims.push_back(r.out);
    return std::vector{c.out(0, Shape(std::move(dims)))};
  };
  op.compute = resize;
  op.samples = {"resize(f32[1,1,2,3], _, f32[4] [1,1,2,2])",
                "resize(f32[1,1,4,4], _, f32[4] [1,1,0.6,1.5]){mode=\"linear\"}",
                "resize(f32[1,1,4,4], _, _, [1,1,3,5]){mode=\"cubic\", exclude_outside=1}",
                "resize(f32[4,6], _, _, [2,3]){mode=\"linear\", antialias=1}"};
  op.onnx = {{.type = "Resize", .since = {10, 11, 13, 18, 19}, .stable = 19, .import = import_scales},
             {.type = "Upsample", .since = {1, 7, 9, 10}, .stable = 10, .import = import_scales}};
  return op;
}

}  // namespace isomer::ops
