#include "ir/op.h"
#include "ops/shape_operand.h"

namespace isomer::ops {

ir::OpDef op_constant_of_shape() {
  ir::OpDef op;
  op.name = "constant_of_shape";
  op.doc = "A tensor of the given shape, filled with one value.";
  op.inputs = {{"input", "S", DType::I64}};
  op.outputs = {{"output", "$value"}};
  op.attrs = {{"value", ir::AttrKind::Tensor, Tensor::of<double>(DType::F32, {1}, {0})}};
  op.infer = [](const ir::OpContext& c) -> Expected<std::vector<Type>> {
    if (c.tensor("value")->size() != 1) return c.error("attribute 'value' must hold exactly one element");
    ISOMER_TRY(Shape shape, size_operand(c, 0));
    return std::vector{c.out(0, std::move(shape))};
  };
  op.compute = [](const ir::OpContext& c) -> Expected<te::Program> {
    ISOMER_TRY(const Shape shape, size_operand(c, 0));
    ISOMER_TRY(const std::vector<Dim> dims, known_dims(c, shape, 0));
    te::Builder b;
    c.declare(b);
    const Tensor& value = *c.tensor("value");
    const DType t = value.dtype();
    const te::Expr fill = is_float(t) ? te::Expr::real(t, value.real(0)) : te::Expr::integer(t, value.integer(0));
    return b.finish({b.map("output", t, dims, [&](auto) { return fill; })});
  };
  op.samples = {"constant_of_shape([2,3])", "constant_of_shape([4]){value=const i64[1] [7]}"};
  op.onnx = {{.type = "ConstantOfShape", .since = {9, 20, 21, 23}, .stable = 9}};
  return op;
}

}  // namespace isomer::ops
