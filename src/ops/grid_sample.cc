// Reads at real positions that a grid holds, and the grids of affine maps.
#include <fmt/format.h>

#include "ops/interpolation.h"
#include "ops/legacy_inputs.h"
#include "ops/shape_operand.h"

namespace isomer::ops {
namespace {

using te::Expr;

Expected<std::vector<Dim>> sampled_dims(const ir::OpContext& c) {
  const size_t r = c.rank(0);
  if (r < 3 || r > 8 || c.rank(1) != r)
    return c.error(fmt::format("expected x [N,C,...] and grid [N,...,{}] of one rank, found {} and {}", "axes",
                               c.type(0).to_string(), c.type(1).to_string()));
  const Dim& axes = c.dim(1, r - 1);
  if (axes.is_const() && !(axes == Dim(static_cast<int64_t>(r - 2))))
    return c.error(fmt::format("the last extent of the grid is {}, expected {}", axes.to_string(), r - 2));
  ISOMER_TRY(const Dim batch, same_dim(c, c.dim(0, 0), c.dim(1, 0), "batch extents"));
  for (const auto& [key, words] :
       {std::pair{"mode", " linear nearest cubic "}, std::pair{"padding_mode", " zeros border reflection "}})
    if (std::string_view(words).find(" " + c.text(key) + " ") == std::string_view::npos)
      return c.error(fmt::format("{} {} is none of{}", key, quoted(c.text(key)), words));
  std::vector<Dim> dims{batch, c.dim(0, 1)};
  for (size_t a = 1; a + 1 < r; ++a) dims.push_back(c.dim(1, a));
  return dims;
}

// A position brought to the input by the padding mode, before its neighbours are taken.
Expr bounded(const ir::OpContext& c, const Expr& x, const Dim& extent) {
  const std::string& mode = c.text("padding_mode");
  const DType t = x.dtype();
  const auto real = [&](double v) { return Expr::real(t, v); };
  // The four taps of a cubic reach the border one by one: a position outside still lies between them.
  if (mode == "zeros" || (mode == "border" && c.text("mode") == "cubic")) return x;
  const bool corners = c.flag("align_corners");
  const Expr n = te::cast(t, Expr(extent)), low = real(corners ? 0 : -0.5), range = corners ? n - real(1) : n;
  if (mode == "border") {
    const Expr inside = low <= x && x <= low + range;
    return te::select(inside, x, te::min(te::max(x, real(0)), n - real(1)));
  }
  const Expr period = te::max(range * real(2), real(1)), from = x - low;
  const Expr at = from - period * te::floor(from / period);
  return low + te::min(at, period - at);
}

// A neighbour's index brought to the input; for zeros it stays, and is not read when outside.
Expr bounded_index(const ir::OpContext& c, const Expr& i, const Dim& extent) {
  const std::string& mode = c.text("padding_mode");
  if (mode == "zeros") return i;
  const Expr n(extent);
  if (mode == "border") return clamped(i, n);
  if (c.flag("align_corners")) {
    const Expr period = te::max((n - Expr(1)) * Expr(2), 1), at = te::floor_mod(i, period);
    return te::min(at, period - at);
  }
  const Expr at = te::floor_mod(i, n * Expr(2));
  return te::min(at, n * Expr(2) - Expr(1) - at);
}

// The sum over the neighbours (or the nearest point) of the position `at`, one real per spatial axis.
Expr sampled(const ir::OpContext& c, te::Builder& b, const te::Handle& x, std::span<const Expr> i,
             const std::vector<Expr>& at) {
  const std::string& mode = c.text("mode");
  const DType t = sampling_type(c.dtype(0));
  const bool cubic = mode == "cubic", nearest = mode == "nearest";
  std::vector<Expr> index{i[0], i[1]}, inside;
  std::vector<te::Axis> axes;
  Expr weight;
  for (size_t a = 0; a < at.size(); ++a) {
    const Dim& n = x.dim(a + 2);
    Expr place;
    if (nearest) {
      place = te::cast(DType::I64, te::round(at[a]));
    } else {
      axes.push_back(b.axis(fmt::format("k{}", a), Dim(cubic ? 4 : 2)));
      const Expr tap = cubic ? Expr(axes[a]) - Expr(1) : Expr(axes[a]), below = te::floor(at[a]);
      place = te::cast(DType::I64, below) + tap;
      const Expr d = te::abs(te::cast(t, tap) - (at[a] - below));
      const Expr w = cubic ? cubic_weight(d, -0.75) : linear_weight(d);
      weight = weight.empty() ? w : weight * w;
    }
    index.push_back(bounded_index(c, place, n));
    if (c.text("padding_mode") == "zeros") inside.push_back(te::in_range(place, Expr(n)));
  }
  const Expr value = x.at(index);
  if (nearest) return te::select(te::all_of(inside), value, Expr::literal(value.dtype(), 0));
  return te::cast(c.dtype(0), te::sum(axes, weight * te::cast(t, value), te::all_of(inside)));
}

Expected<te::Program> grid_sample(const ir::OpContext& c) {
  ISOMER_TRY(const std::vector<Dim> dims, sampled_dims(c));
  te::Builder b;
  const auto in = c.declare(b);
  const DType t = sampling_type(c.dtype(0));
  return b.finish({b.map("y", c.dtype(0), dims, [&](auto i) {
    const size_t spatial = c.rank(0) - 2;
    std::vector<Expr> at;
    for (size_t a = 0; a < spatial; ++a) {
      std::vector<Expr> g{i[0]};
      g.insert(g.end(), i.begin() + 2, i.end());
      g.emplace_back(static_cast<int64_t>(spatial - 1 - a));  // the grid names the innermost axis first
      const Expr n = te::cast(t, Expr(in[0].dim(a + 2)));
      const Expr from_left = te::cast(t, in[1].at(std::move(g))) + Expr::real(t, 1), half = Expr::real(t, 0.5);
      const Expr x = c.flag("align_corners") ? from_left * half * (n - Expr::real(t, 1)) : (from_left * n - 1) * half;
      at.push_back(bounded(c, c.text("mode") == "nearest" ? te::round(x) : x, in[0].dim(a + 2)));
    }
    return sampled(c, b, in[0], i, at);
  })});
}

Expected<std::vector<ir::Value>> import_grid_sample(ir::ForeignNode& node, ir::GraphBuilder& builder) {
  if (const std::string* mode = node.attrs.get<std::string>("mode"); mode && node.version < 20) {
    if (*mode == "bilinear")
      node.attrs.set("mode", std::string("linear"));
    else if (*mode == "bicubic")
      node.attrs.set("mode", std::string("cubic"));
  }
  return ir::add_as_is(node, builder);
}

// [N,C,H,W] or [N,C,D,H,W] as the size input gives it.
Expected<Shape> grid_shape(const ir::OpContext& c) {
  ISOMER_TRY(const Shape size, size_operand(c, 1));
  if (!size.has_rank()) return Shape::unknown();
  if (c.rank(0) != 3 || (size.rank() != 4 && size.rank() != 5))
    return c.error(fmt::format("expected theta [N,2,3] and a size of 4, or [N,3,4] and 5, found {} and {}",
                               c.type(0).to_string(), size.rank()));
  const auto k = static_cast<int64_t>(size.rank()) - 2;
  ISOMER_CHECK_OK(same_dim(c, c.dim(0, 1), Dim(k), "rows of theta and spatial axes"));
  ISOMER_CHECK_OK(same_dim(c, c.dim(0, 2), Dim(k + 1), "columns of theta and spatial axes plus one"));
  ISOMER_TRY(const Dim batch, same_dim(c, size[0].is_invalid() ? c.dim(0, 0) : size[0], c.dim(0, 0), "batch extents"));
  std::vector<Dim> dims{batch};
  dims.insert(dims.end(), size.dims().begin() + 2, size.dims().end());
  dims.emplace_back(k);
  return Shape(std::move(dims));
}

Expected<te::Program> affine_grid(const ir::OpContext& c) {
  ISOMER_TRY(const Shape shape, grid_shape(c));
  ISOMER_TRY(const std::vector<Dim> dims, known_dims(c, shape, 1));
  te::Builder b;
  const auto in = c.declare(b);
  const DType t = c.dtype(0);
  const auto real = [&](double v) { return Expr::real(t, v); };
  return b.finish({b.map("grid", t, dims, [&](auto i) {
    const size_t spatial = dims.size() - 2;
    Expr total = in[0](i[0], i.back(), static_cast<int64_t>(spatial));
    for (size_t a = 0; a < spatial; ++a) {
      const Expr n = te::cast(t, Expr(dims[a + 1])), at = te::cast(t, i[a + 1]);
      const Expr base = c.flag("align_corners")
                            ? te::select(n <= real(1), real(0), real(2) * at / (n - real(1)) - real(1))
                            : (real(2) * at + real(1)) / n - real(1);
      total = total + in[0](i[0], i.back(), static_cast<int64_t>(spatial - 1 - a)) * base;
    }
    return total;
  })});
}

}  // namespace

ir::OpDef op_grid_sample() {
  ir::OpDef op;
  op.name = "grid_sample";
  op.doc = "Samples x at the positions of a grid, which run from -1 to 1 over the spatial axes.";
  op.inputs = {{"x", "T", kAllTypes}, {"grid", "G", kFloats}};
  op.outputs = {{"y", "T"}};
  op.attrs = {{"align_corners", ir::AttrKind::Int, int64_t{0}},
              {"mode", ir::AttrKind::String, std::string("linear")},
              {"padding_mode", ir::AttrKind::String, std::string("zeros")}};
  op.compute = grid_sample;
  op.samples = {"grid_sample(f32[1,1,3,4], f32[1,2,2,2])",
                "grid_sample(f32[1,2,3,4], f32[1,2,2,2]){mode=\"cubic\", padding_mode=\"border\"}",
                "grid_sample(f32[1,1,2,3,2], f32[1,2,1,2,3]){mode=\"nearest\", padding_mode=\"reflection\"}",
                "grid_sample(f32[1,1,3,4], f32[1,2,2,2]){align_corners=1, padding_mode=\"reflection\"}"};
  op.onnx = {{.type = "GridSample", .since = {16, 20, 22}, .stable = 20, .import = import_grid_sample}};
  return op;
}

ir::OpDef op_affine_grid() {
  ir::OpDef op;
  op.name = "affine_grid";
  op.doc = "The grid for grid_sample that an affine map of the result's positions gives.";
  op.inputs = {{"theta", "T", kFloats}, {"size", "S", DType::I64}};
  op.outputs = {{"grid", "T"}};
  op.attrs = {{"align_corners", ir::AttrKind::Int, int64_t{0}}};
  op.infer = [](const ir::OpContext& c) -> Expected<std::vector<Type>> {
    ISOMER_TRY(Shape shape, grid_shape(c));
    return std::vector{c.out(0, std::move(shape))};
  };
  op.compute = affine_grid;
  op.samples = {"affine_grid(f32[2,2,3], [2,1,3,4])", "affine_grid(f32[1,3,4], [1,1,2,3,2]){align_corners=1}"};
  op.onnx = {{.type = "AffineGrid", .since = {20}, .stable = 20}};
  return op;
}

}  // namespace isomer::ops
