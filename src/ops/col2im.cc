#include <fmt/format.h>

#include "ir/op.h"
#include "ops/shape_operand.h"

namespace isomer::ops {
namespace {

using te::Expr;

struct Patches {
  std::vector<Dim> image, block, steps;  // steps: how many blocks fit along each axis
  std::vector<int64_t> strides, dilations, pads;
};

Expected<std::vector<int64_t>> listed(const ir::OpContext& c, const char* key, size_t count, int64_t otherwise) {
  std::vector<int64_t> v = c.has_attr(key) ? c.ints(key) : std::vector<int64_t>(count, otherwise);
  if (v.size() != count)
    return c.error(fmt::format("attribute '{}' has {} entries, expected {}", key, v.size(), count));
  for (int64_t x : v)
    if (x < otherwise || x > kMaxTensorBytes)
      return c.error(fmt::format("attribute '{}' holds {}, expected {} or more", key, x, otherwise));
  return v;
}

// Nothing when the sizes are not known.
Expected<std::optional<Patches>> window(const ir::OpContext& c) {
  ISOMER_TRY(const Shape image, size_operand(c, 1));
  ISOMER_TRY(const Shape block, size_operand(c, 2));
  if (c.rank(0) != 3) return c.error(fmt::format("expected an input [N,C,L], found {}", c.type(0).to_string()));
  if (!image.has_rank() || !block.has_rank()) return std::optional<Patches>();
  const size_t k = image.rank();
  if (block.rank() != k || k == 0)
    return c.error(fmt::format("image_shape has {} entries and block_shape {}", k, block.rank()));
  Patches w{image.dims(), block.dims(), {}, {}, {}, {}};
  ISOMER_TRY(w.strides, listed(c, "strides", k, 1));
  ISOMER_TRY(w.dilations, listed(c, "dilations", k, 1));
  ISOMER_TRY(w.pads, listed(c, "pads", 2 * k, 0));
  for (size_t a = 0; a < k; ++a) {
    if (image[a].is_invalid() || block[a].is_invalid()) return std::optional<Patches>();
    if (block[a].is_const() && block[a].value() < 1) return c.error("block_shape must hold numbers above 0");
    const Dim reach = Dim(w.dilations[a]) * (block[a] - Dim(1)) + Dim(1);
    w.steps.push_back(floor_div(image[a] + Dim(w.pads[a]) + Dim(w.pads[k + a]) - reach, Dim(w.strides[a])) + Dim(1));
  }
  return std::optional(std::move(w));
}

Dim product(const std::vector<Dim>& dims) { return Shape(dims).elements(); }

Expected<Shape> result(const ir::OpContext& c, const std::optional<Patches>& w) {
  if (!w) {
    const auto k = c.rank(1) == 1 ? c.dim(1, 0).constant() : std::nullopt;
    if (!k || *k < 0 || *k > static_cast<int64_t>(kMaxRank)) return Shape::unknown();
    return Shape(std::vector<Dim>(static_cast<size_t>(*k) + 2, Dim::invalid()));
  }
  const Dim channels = c.dim(0, 1), taps = product(w->block), places = product(w->steps);
  if (channels.is_const() && taps.is_const() && channels.value() % taps.value() != 0)
    return c.error(fmt::format("{} rows do not divide into blocks of {}", channels.value(), taps.value()));
  ISOMER_CHECK_OK(same_dim(c, c.dim(0, 2), places, "columns and places of the block"));
  std::vector<Dim> dims{c.dim(0, 0), floor_div(channels, taps)};
  dims.insert(dims.end(), w->image.begin(), w->image.end());
  return Shape(std::move(dims));
}

Expected<te::Program> col2im(const ir::OpContext& c) {
  ISOMER_TRY(const auto w, window(c));
  ISOMER_TRY(const Shape shape, result(c, w));
  if (!w) return needs_value(c, 1);
  ISOMER_TRY(const std::vector<Dim> dims, known_dims(c, shape, 1));
  te::Builder b;
  const auto in = c.declare(b);
  const std::vector<te::Axis> taps = b.axes("k", w->block);
  return b.finish({b.map("output", c.dtype(0), dims, [&](auto i) {
    std::vector<Expr> places, hits;
    for (size_t a = 0; a < taps.size(); ++a) {
      const Expr from = i[a + 2] + Expr(w->pads[a]) - Expr(taps[a]) * Expr(w->dilations[a]);
      const Expr place = te::floor_div(from, Expr(w->strides[a]));
      hits.push_back(te::in_range(place, Expr(w->steps[a])));
      if (w->strides[a] != 1) hits.push_back(te::eq(te::floor_mod(from, Expr(w->strides[a])), 0));
      places.push_back(place);
    }
    const Expr tap = te::flatten(te::exprs(taps), w->block);
    return te::sum(taps, in[0](i[0], i[1] * Expr(product(w->block)) + tap, te::flatten(places, w->steps)),
                   te::all_of(hits));
  })});
}

}  // namespace

ir::OpDef op_col2im() {
  ir::OpDef op;
  op.name = "col2im";
  op.doc = "Adds the columns of sliding blocks back into the image they were taken from.";
  op.inputs = {{"input", "T", kNumbers}, {"image_shape", "S", DType::I64}, {"block_shape", "S", DType::I64}};
  op.outputs = {{"output", "T"}};
  op.attrs = {{"dilations", ir::AttrKind::Ints}, {"pads", ir::AttrKind::Ints}, {"strides", ir::AttrKind::Ints}};
  op.infer = [](const ir::OpContext& c) -> Expected<std::vector<Type>> {
    ISOMER_TRY(const auto w, window(c));
    ISOMER_TRY(Shape shape, result(c, w));
    return std::vector{c.out(0, std::move(shape))};
  };
  op.compute = col2im;
  op.samples = {"col2im(f32[1,5,5], [5,5], [1,5])", "col2im(f32[1,4,9], [4,4], [2,2])",
                "col2im(f32[1,4,4], [4,4], [2,2]){strides=[2,2]}",
                "col2im(f32[1,4,16], [5,5], [2,2]){dilations=[2,2], pads=[0,1,1,0]}"};
  op.onnx = {{.type = "Col2Im", .since = {18}, .stable = 18}};
  return op;
}

}  // namespace isomer::ops
