#include <fmt/format.h>

#include "ir/op.h"
#include "ops/shape_operand.h"

namespace isomer::ops {
namespace {

// The number of classes, when known; a float depth is truncated.
Expected<Dim> depth(const ir::OpContext& c) {
  const Shape& s = c.shape(1);
  if (s.rank() > 1 || (s.rank() == 1 && s[0].is_const() && s[0].value() != 1))
    return c.error(fmt::format("input 'depth' must be a single number, found {}", c.type(1).to_string()));
  std::optional<Dim> n;
  if (const Tensor* t = c.value(1); t && t->size() == 1) {
    n = Dim(t->integer(0));
  } else {
    ISOMER_TRY(n, scalar_operand(c, 1));
  }
  if (!n) return Dim::invalid();
  if (n->is_const() && n->value() < 0) return c.error(fmt::format("depth is {}, expected 0 or more", n->value()));
  return *n;
}

Expected<Shape> result(const ir::OpContext& c, size_t& axis) {
  if (c.rank(2) != 1 || (c.dim(2, 0).is_const() && c.dim(2, 0).value() != 2))
    return c.error(fmt::format("input 'values' must be [off, on], found {}", c.type(2).to_string()));
  ISOMER_TRY(axis, c.axis(c.integer("axis"), c.rank(0) + 1));
  ISOMER_TRY(const Dim n, depth(c));
  std::vector<Dim> dims = c.shape(0).dims();
  dims.insert(dims.begin() + static_cast<ptrdiff_t>(axis), n);
  return Shape(std::move(dims));
}

}  // namespace

ir::OpDef op_one_hot() {
  ir::OpDef op;
  op.name = "one_hot";
  op.doc = "values[1] where the position along the new axis equals the index, values[0] elsewhere.";
  op.inputs = {{"indices", "I", kNumbers}, {"depth", "D", kNumbers}, {"values", "T", kAllTypes}};
  op.outputs = {{"output", "T"}};
  op.attrs = {{"axis", ir::AttrKind::Int, int64_t{-1}}};
  op.infer = [](const ir::OpContext& c) -> Expected<std::vector<Type>> {
    size_t axis = 0;
    ISOMER_TRY(Shape shape, result(c, axis));
    return std::vector{c.out(0, std::move(shape))};
  };
  op.compute = [](const ir::OpContext& c) -> Expected<te::Program> {
    size_t axis = 0;
    ISOMER_TRY(const Shape shape, result(c, axis));
    ISOMER_TRY(const std::vector<Dim> dims, known_dims(c, shape, 1));
    te::Builder b;
    const auto in = c.declare(b);
    return b.finish({b.map("output", c.dtype(2), dims, [&](auto i) {
      std::vector<te::Expr> at(i.begin(), i.end());
      at.erase(at.begin() + static_cast<ptrdiff_t>(axis));
      const te::Expr index = te::cast(DType::I64, in[0].at(std::move(at)));
      const te::Expr hot = te::select(index < te::Expr(0), index + te::Expr(dims[axis]), index);
      return te::select(te::eq(hot, i[axis]), in[2](1), in[2](0));
    })});
  };
  op.samples = {"one_hot(i64[3] in -4..4, i64 4, f32[2])", "one_hot(i32[2,2] in 0..3, i64 3, i32[2]){axis=1}"};
  op.onnx = {{.type = "OneHot", .since = {9, 11}, .stable = 11}};
  return op;
}

}  // namespace isomer::ops
