#include <fmt/format.h>

#include <cmath>

#include "ir/op.h"
#include "ops/shape_operand.h"

namespace isomer::ops {
namespace {

Expected<Dim> real_count(const ir::OpContext& c, double start, double limit, double delta) {
  if (delta == 0) return c.error("delta is 0, expected any other number");
  const double n = std::ceil((limit - start) / delta);
  if (!(n <= static_cast<double>(kMaxTensorBytes)))
    return c.error(fmt::format("a range from {} to {} by {} has no usable length", start, limit, delta));
  return Dim(n > 0 ? static_cast<int64_t>(n) : 0);
}

Expected<Dim> count(const ir::OpContext& c) {
  for (size_t i = 0; i < 3; ++i)
    if (c.rank(i) > 1 || (c.rank(i) == 1 && c.dim(i, 0).is_const() && c.dim(i, 0).value() != 1))
      return c.error(
          fmt::format("input '{}' must be a scalar, found {}", c.op().inputs[i].name, c.type(i).to_string()));
  if (is_float(c.dtype(0))) {
    const Tensor *start = c.value(0), *limit = c.value(1), *delta = c.value(2);
    if (!start || !limit || !delta || start->size() != 1 || limit->size() != 1 || delta->size() != 1)
      return Dim::invalid();
    return real_count(c, start->real(0), limit->real(0), delta->real(0));
  }
  ISOMER_TRY(const auto start, scalar_operand(c, 0));
  ISOMER_TRY(const auto limit, scalar_operand(c, 1));
  ISOMER_TRY(const auto delta, scalar_operand(c, 2));
  if (!start || !limit || !delta || !delta->is_const()) return Dim::invalid();
  if (delta->value() == 0) return c.error("delta is 0, expected any other number");
  const bool up = delta->value() > 0;
  const Dim span = up ? *limit - *start : *start - *limit;
  return max(ceil_div(span, up ? *delta : Dim(0) - *delta), Dim(0));
}

te::Expr scalar(const te::Handle& h) { return h.rank() == 0 ? h() : h(0); }

}  // namespace

ir::OpDef op_range() {
  ir::OpDef op;
  op.name = "range";
  op.doc = "start, start + delta, ... below limit (above it when delta is negative).";
  const DTypeSet types = kFloats | DType::I64 | DType::I32 | DType::I16;
  op.inputs = {{"start", "T", types}, {"limit", "T", types}, {"delta", "T", types}};
  op.outputs = {{"output", "T"}};
  op.infer = [](const ir::OpContext& c) -> Expected<std::vector<Type>> {
    ISOMER_TRY(const Dim n, count(c));
    return std::vector{c.out(0, Shape{n})};
  };
  op.compute = [](const ir::OpContext& c) -> Expected<te::Program> {
    ISOMER_TRY(const Dim n, count(c));
    if (n.is_invalid()) return needs_value(c, 1);
    te::Builder b;
    const auto in = c.declare(b);
    const Dim dims[] = {n};
    return b.finish({b.map("output", c.dtype(0), dims,
                           [&](auto i) { return scalar(in[0]) + te::cast(c.dtype(0), i[0]) * scalar(in[2]); })});
  };
  op.samples = {"range(i64 1, i64 10, i64 3)", "range(f32 0.5, f32 2, f32 0.25)", "range(i32 5, i32 0, i32 -2)"};
  op.onnx = {{.type = "Range", .since = {11}, .stable = 11}};
  return op;
}

}  // namespace isomer::ops
