// Pooling over regions whose corners are data.
#include <fmt/format.h>

#include <cmath>

#include "ir/graph.h"
#include "ops/interpolation.h"
#include "ops/shape_operand.h"

namespace isomer::ops {
namespace {

using te::Expr;

struct Samples {
  int64_t rows = 0, columns = 0;  // most per bin
};

// Samples per bin along each axis: given, or enough for the largest region.
Expected<Samples> samples_per_bin(const ir::OpContext& c) {
  const int64_t ratio = c.integer("sampling_ratio");
  if (ratio > 0) return Samples{ratio, ratio};
  const Tensor* rois = c.value(1);
  if (!rois) return needs_value(c, 1);
  const double scale = c.real("spatial_scale");
  const bool half = c.text("coordinate_transformation_mode") == "half_pixel";
  const auto count = [&](double length, int64_t bins) {
    length *= scale;
    return std::ceil((half ? length : std::max(length, 1.0)) / static_cast<double>(bins));
  };
  double rows = 0, columns = 0;
  for (int64_t r = 0; r + 3 < rois->size(); r += 4) {
    columns = std::max(columns, count(rois->real(r + 2) - rois->real(r), c.integer("output_width")));
    rows = std::max(rows, count(rois->real(r + 3) - rois->real(r + 1), c.integer("output_height")));
  }
  if (!(rows <= 4096 && columns <= 4096)) return c.error("a region is too large to sample");
  return Samples{static_cast<int64_t>(rows), static_cast<int64_t>(columns)};
}

Expected<std::vector<Dim>> roi_align_dims(const ir::OpContext& c) {
  if (c.rank(0) != 4 || c.rank(1) != 2 || c.rank(2) != 1)
    return c.error(fmt::format("expected x [N,C,H,W], rois [R,4] and batch_indices [R], found {}, {} and {}",
                               c.type(0).to_string(), c.type(1).to_string(), c.type(2).to_string()));
  ISOMER_CHECK_OK(same_dim(c, c.dim(1, 1), Dim(4), "the extent of a region and 4"));
  ISOMER_TRY(const Dim regions, same_dim(c, c.dim(1, 0), c.dim(2, 0), "numbers of regions"));
  for (const char* key : {"output_height", "output_width"})
    if (c.integer(key) < 1) return c.error(fmt::format("{} is {}, expected 1 or more", key, c.integer(key)));
  if (c.integer("sampling_ratio") < 0 || c.integer("sampling_ratio") > 4096)
    return c.error(fmt::format("sampling_ratio is {}, expected 0 to 4096", c.integer("sampling_ratio")));
  if (c.text("mode") != "avg" && c.text("mode") != "max")
    return c.error(fmt::format("mode {} is none of avg, max", quoted(c.text("mode"))));
  const std::string& coordinates = c.text("coordinate_transformation_mode");
  if (coordinates != "half_pixel" && coordinates != "output_half_pixel")
    return c.error(
        fmt::format("coordinate_transformation_mode {} is none of half_pixel, output_half_pixel", quoted(coordinates)));
  return std::vector{regions, c.dim(0, 1), Dim(c.integer("output_height")), Dim(c.integer("output_width"))};
}

// One axis of one sample: its position, the two points beside it and the weight of the upper one.
struct Side {
  Expr at, low, high, upper, inside, count;
};

Side side(const ir::OpContext& c, const te::Handle& rois, const Expr& region, const Expr& bin, const te::Axis& sample,
          bool row) {
  const DType t = sampling_type(c.dtype(0));
  const auto real = [&](double v) { return Expr::real(t, v); };
  const bool half = c.text("coordinate_transformation_mode") == "half_pixel";
  const Expr scale = real(c.real("spatial_scale")), offset = real(half ? 0.5 : 0);
  const Expr start = te::cast(t, rois(region, row ? 1 : 0)) * scale - offset;
  const Expr end = te::cast(t, rois(region, row ? 3 : 2)) * scale - offset;
  const Expr length = half ? end - start : te::max(end - start, real(1));
  const Expr bins = real(static_cast<double>(c.integer(row ? "output_height" : "output_width")));
  const int64_t ratio = c.integer("sampling_ratio");
  const Expr count = ratio > 0 ? real(static_cast<double>(ratio)) : te::max(te::ceil(length / bins), real(0));
  const Expr x = start + (te::cast(t, bin) + (te::cast(t, Expr(sample)) + real(0.5)) / count) * (length / bins);
  const Expr n(c.dim(0, row ? 2 : 3)), extent = te::cast(t, n);
  const Expr clipped = te::min(te::max(x, real(0)), extent - real(1));
  const Expr low = clamped(te::cast(DType::I64, te::floor(clipped)), n);
  return {x, low, te::min(low + Expr(1), n - Expr(1)), clipped - te::cast(t, low), real(-1) <= x && x <= extent, count};
}

Expected<te::Program> roi_align(const ir::OpContext& c) {
  ISOMER_TRY(const std::vector<Dim> dims, roi_align_dims(c));
  ISOMER_TRY(const Samples most, samples_per_bin(c));
  te::Builder b;
  const auto in = c.declare(b);
  const DType t = sampling_type(c.dtype(0));
  const te::Axis row = b.axis("row", Dim(most.rows)), column = b.axis("column", Dim(most.columns));
  return b.finish({b.map("y", c.dtype(0), dims, [&](auto i) {
    const Side y = side(c, in[1], i[0], i[2], row, true), x = side(c, in[1], i[0], i[3], column, false);
    const Expr one = Expr::real(t, 1), zero = Expr::real(t, 0);
    const auto corner = [&](bool bottom, bool right) {
      const Expr weight = (bottom ? y.upper : one - y.upper) * (right ? x.upper : one - x.upper);
      return weight * te::cast(t, in[0](te::cast(DType::I64, in[2](i[0])), i[1], bottom ? y.high : y.low,
                                        right ? x.high : x.low));
    };
    const bool average = c.text("mode") == "avg";
    const Expr four = average ? corner(false, false) + corner(false, true) + corner(true, false) + corner(true, true)
                              : te::max(te::max(corner(false, false), corner(false, true)),
                                        te::max(corner(true, false), corner(true, true)));
    const Expr value = te::select(y.inside && x.inside, four, zero);
    const Expr counted = te::cast(t, Expr(row)) < y.count && te::cast(t, Expr(column)) < x.count;
    if (average) return te::cast(c.dtype(0), te::sum({row, column}, value, counted) / te::max(y.count * x.count, one));
    const Expr top = te::reduce(te::Combiner::Max, {row, column}, value, counted);
    return te::cast(c.dtype(0), te::select(zero < y.count * x.count, top, zero));
  })});
}

Expected<std::vector<ir::Value>> import_roi_align(ir::ForeignNode& node, ir::GraphBuilder& builder) {
  if (node.version < 16) node.attrs.set("coordinate_transformation_mode", std::string("output_half_pixel"));
  return ir::add_as_is(node, builder);
}

// The first and the last-plus-one point of a bin along one axis, inside the input.
std::pair<Expr, Expr> bin_range(const ir::OpContext& c, const te::Handle& rois, const Expr& region, const Expr& bin,
                                bool row) {
  const DType t = sampling_type(c.dtype(0));
  const auto real = [&](double v) { return Expr::real(t, v); };
  const auto corner = [&](int64_t k) {
    return te::floor(te::cast(t, rois(region, k)) * real(c.real("spatial_scale")) + real(0.5));
  };
  const Expr start = corner(row ? 2 : 1), length = te::max(corner(row ? 4 : 3) - start + real(1), real(1));
  const Expr size = length / real(static_cast<double>(c.ints("pooled_shape")[row ? 0 : 1])), at = te::cast(t, bin);
  const Expr n(c.dim(0, row ? 2 : 3));
  const auto inside = [&](const Expr& v) { return te::min(te::max(te::cast(DType::I64, v), 0), n); };
  return {inside(te::floor(at * size) + start), inside(te::ceil((at + real(1)) * size) + start)};
}

Expected<te::Program> max_roi_pool(const ir::OpContext& c) {
  const std::vector<int64_t> pooled = c.ints("pooled_shape");
  if (c.rank(0) != 4 || c.rank(1) != 2 || pooled.size() != 2 || pooled[0] < 1 || pooled[1] < 1)
    return c.error(fmt::format("expected x [N,C,H,W], rois [R,5] and two pooled extents, found {} and {}",
                               c.type(0).to_string(), c.type(1).to_string()));
  ISOMER_CHECK_OK(same_dim(c, c.dim(1, 1), Dim(5), "the extent of a region and 5"));
  te::Builder b;
  const auto in = c.declare(b);
  const te::Axis h = b.axis("h", c.dim(0, 2)), w = b.axis("w", c.dim(0, 3));
  const Dim dims[] = {c.dim(1, 0), c.dim(0, 1), Dim(pooled[0]), Dim(pooled[1])};
  return b.finish({b.map("y", c.dtype(0), dims, [&](auto i) {
    const auto [top, bottom] = bin_range(c, in[1], i[0], i[2], true);
    const auto [left, right] = bin_range(c, in[1], i[0], i[3], false);
    const Expr where = te::all_of({top <= Expr(h), Expr(h) < bottom, left <= Expr(w), Expr(w) < right});
    const Expr most = te::reduce(te::Combiner::Max, {h, w},
                                 in[0](te::cast(DType::I64, in[1](i[0], 0)), i[1], Expr(h), Expr(w)), where);
    return te::select(top < bottom && left < right, most, Expr::real(c.dtype(0), 0));
  })});
}

}  // namespace

ir::OpDef op_roi_align() {
  ir::OpDef op;
  op.name = "roi_align";
  op.doc = "Averages or maxima of bilinear samples over the bins of each region.";
  op.inputs = {{"x", "T", kFloats}, {"rois", "T", kFloats}, {"batch_indices", "I", DType::I64}};
  op.outputs = {{"y", "T"}};
  op.attrs = {{"coordinate_transformation_mode", ir::AttrKind::String, std::string("half_pixel")},
              {"mode", ir::AttrKind::String, std::string("avg")},
              {"output_height", ir::AttrKind::Int, int64_t{1}},
              {"output_width", ir::AttrKind::Int, int64_t{1}},
              {"sampling_ratio", ir::AttrKind::Int, int64_t{0}},
              {"spatial_scale", ir::AttrKind::Real, 1.0}};
  op.infer = [](const ir::OpContext& c) -> Expected<std::vector<Type>> {
    ISOMER_TRY(std::vector<Dim> dims, roi_align_dims(c));
    return std::vector{c.out(0, Shape(std::move(dims)))};
  };
  op.compute = roi_align;
  op.samples = {"roi_align(f32[2,1,5,6], f32[2,4], i64[2] in 0..2){output_height=2, output_width=2, sampling_ratio=2}",
                "roi_align(f32[1,2,5,6], f32[1,4] [0.5,1,4,4.5], i64[1] [0]){mode=\"max\", output_height=2}"};
  op.onnx = {{.type = "RoiAlign", .since = {10, 16, 22}, .stable = 16, .import = import_roi_align}};
  return op;
}

ir::OpDef op_max_roi_pool() {
  ir::OpDef op;
  op.name = "max_roi_pool";
  op.doc = "Maxima over the bins of each region, whose corners are rounded to points.";
  op.inputs = {{"x", "T", kFloats}, {"rois", "T", kFloats}};
  op.outputs = {{"y", "T"}};
  op.attrs = {{"pooled_shape", ir::AttrKind::Ints, std::nullopt, true}, {"spatial_scale", ir::AttrKind::Real, 1.0}};
  op.compute = max_roi_pool;
  op.samples = {"max_roi_pool(f32[1,2,5,6], f32[1,5] [0,0,1,4,3]){pooled_shape=[2,2]}"};
  op.onnx = {{.type = "MaxRoiPool", .since = {1, 22}, .stable = 1}};
  return op;
}

}  // namespace isomer::ops
