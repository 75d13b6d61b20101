// Running sums and products along an axis.
#include <fmt/format.h>

#include "ir/op.h"
#include "ops/shape_operand.h"

namespace isomer::ops {
namespace {

Expected<std::optional<size_t>> axis_of(const ir::OpContext& c) {
  ISOMER_TRY(const auto given, scalar_operand(c, 1));
  if (!given || !given->is_const()) return std::optional<size_t>();
  ISOMER_TRY(const size_t axis, c.axis(given->value(), c.rank(0)));
  return std::optional(axis);
}

ir::OpDef running(te::Combiner combiner) {
  ir::OpDef op;
  op.inputs = {{"x", "T", kNumbers}, {"axis", "A", kIndexInts}};
  op.outputs = {{"y", "T"}};
  op.attrs = {{"exclusive", ir::AttrKind::Int, int64_t{0}}, {"reverse", ir::AttrKind::Int, int64_t{0}}};
  op.infer = [](const ir::OpContext& c) -> Expected<std::vector<Type>> {
    ISOMER_CHECK_OK(axis_of(c));
    return std::vector{c.out(0, c.shape(0))};
  };
  op.compute = [combiner](const ir::OpContext& c) -> Expected<te::Program> {
    ISOMER_TRY(const auto axis, axis_of(c));
    if (!axis) return needs_value(c, 1);
    te::Builder b;
    const auto in = c.declare(b);
    const te::Axis k = b.axis("k", in[0].dim(*axis));
    return b.finish({b.map("y", c.dtype(0), in[0].dims(), [&](auto i) {
      std::vector<te::Expr> index(i.begin(), i.end());
      const te::Expr here = index[*axis];
      index[*axis] = te::Expr(k);
      const te::Expr first = c.flag("reverse") ? here : te::Expr(k), last = c.flag("reverse") ? te::Expr(k) : here;
      return te::reduce(combiner, {k}, in[0].at(std::move(index)), c.flag("exclusive") ? first < last : first <= last);
    })});
  };
  return op;
}

}  // namespace

ir::OpDef op_cum_prod() {
  ir::OpDef op = running(te::Combiner::Product);
  op.name = "cum_prod";
  op.doc = "Running products along an axis, from its end when reversed, without the element itself when exclusive.";
  op.samples = {"cum_prod(f32[2,4], i64 1)", "cum_prod(i32[4], i32 0){exclusive=1, reverse=1}"};
  op.onnx = {{.type = "CumProd", .since = {26}, .stable = 26}};
  return op;
}

ir::OpDef op_cum_sum() {
  ir::OpDef op = running(te::Combiner::Sum);
  op.name = "cum_sum";
  op.doc = "Running sums along an axis, from its end when reversed, without the element itself when exclusive.";
  op.samples = {"cum_sum(f32[2,4], i64 1)", "cum_sum(i32[4], i32 0){exclusive=1}",
                "cum_sum(f32[3,2], i64 -2){reverse=1, exclusive=1}"};
  op.onnx = {{.type = "CumSum", .since = {11, 14}, .stable = 11}};
  return op;
}

}  // namespace isomer::ops
