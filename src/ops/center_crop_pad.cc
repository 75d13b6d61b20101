#include <fmt/format.h>

#include <numeric>

#include "ir/op.h"
#include "ops/shape_operand.h"

namespace isomer::ops {
namespace {

Expected<Shape> result(const ir::OpContext& c) {
  std::vector<size_t> axes(c.rank(0));
  std::iota(axes.begin(), axes.end(), size_t{0});
  if (c.has_attr("axes")) {
    ISOMER_TRY(axes, resolve_axes(c, c.ints("axes"), c.rank(0)));
  }
  // Any integer type may hold the shape; sizes are read the same way.
  ISOMER_TRY(const Shape wanted, size_operand(c, 1));
  if (wanted.has_rank() && wanted.rank() != axes.size())
    return c.error(fmt::format("input 'shape' has {} entries for {} axes", wanted.rank(), axes.size()));
  std::vector<Dim> dims = c.shape(0).dims();
  for (size_t k = 0; k < axes.size(); ++k) dims[axes[k]] = wanted.has_rank() ? wanted[k] : Dim::invalid();
  return Shape(std::move(dims));
}

}  // namespace

ir::OpDef op_center_crop_pad() {
  ir::OpDef op;
  op.name = "center_crop_pad";
  op.doc = "Cuts or zero-pads the given axes to new extents about their middle.";
  op.inputs = {{"input_data", "T", kAllTypes}, {"shape", "S", kIndexInts}};
  op.outputs = {{"output_data", "T"}};
  op.attrs = {{"axes", ir::AttrKind::Ints}};
  op.infer = [](const ir::OpContext& c) -> Expected<std::vector<Type>> {
    ISOMER_TRY(Shape shape, result(c));
    return std::vector{c.out(0, std::move(shape))};
  };
  op.compute = [](const ir::OpContext& c) -> Expected<te::Program> {
    ISOMER_TRY(const Shape shape, result(c));
    ISOMER_TRY(const std::vector<Dim> dims, known_dims(c, shape, 1));
    te::Builder b;
    const auto in = c.declare(b);
    return b.finish({b.map("output_data", c.dtype(0), dims, [&](auto i) {
      std::vector<te::Expr> index(i.begin(), i.end()), inside;
      for (size_t a = 0; a < dims.size(); ++a) {
        const Dim &n = in[0].dim(a), &m = dims[a];
        if (n == m) continue;
        // Halves are rounded to zero: what is odd is cut, or added, at the end.
        index[a] = index[a] + te::Expr(n - m) / te::Expr(2);
        if (!((n - m).at_least().value_or(-1) >= 0)) inside.push_back(te::in_range(index[a], te::Expr(n)));
      }
      const te::Expr value = in[0].at(index);
      if (inside.empty()) return value;
      return te::select(te::all_of(inside), value, te::Expr::literal(c.dtype(0), 0));
    })});
  };
  op.samples = {"center_crop_pad(f32[5,4], [3,7])", "center_crop_pad(f32[2,5,4], [4]){axes=[-2]}"};
  op.onnx = {{.type = "CenterCropPad", .since = {18}, .stable = 18}};
  return op;
}

}  // namespace isomer::ops
