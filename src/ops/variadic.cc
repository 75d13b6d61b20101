// Element-wise operators over any number of tensors, with broadcasting.
#include <fmt/format.h>

#include "ir/op.h"
#include "ops/broadcast.h"
#include "ops/elementwise.h"
#include "ops/legacy.h"

namespace isomer::ops {
namespace {

using te::Expr;
using Fold = std::function<Expr(const std::vector<Expr>&)>;

ir::OpDef variadic(std::string name, std::string doc, std::string onnx, DTypeSet types, std::vector<int> since,
                   Fold fold) {
  ir::OpDef op;
  op.name = name;
  op.doc = std::move(doc);
  op.inputs = {{"data_0", "T", types, ir::Arity::Variadic, 1}};
  op.outputs = {{name, "T"}};
  op.infer = [](const ir::OpContext& c) -> Expected<std::vector<Type>> {
    for (size_t i = 0; i < c.input_count(); ++i)
      if (!c.has(i)) return c.error(fmt::format("input {} is missing", i));
    ISOMER_TRY(std::vector<Dim> dims, broadcast_inputs(c));
    return std::vector{c.out(0, Shape(std::move(dims)))};
  };
  op.compute = [fold = std::move(fold), name](const ir::OpContext& c) -> Expected<te::Program> {
    te::Builder b;
    const auto in = c.declare(b);
    ISOMER_TRY(const std::vector<Dim> dims, broadcast_inputs(c));
    return b.finish({b.map(name, c.dtype(0), dims, [&](auto i) {
      std::vector<Expr> operands;
      for (const te::Handle& h : in) operands.push_back(h.broadcast(i));
      return fold(operands);
    })});
  };
  op.samples = {name + "(f32[2,3])", name + "(f32[2,3], f32[3])", name + "(f32[2,1], f32[1,3], f32[4,1,1])"};
  op.onnx = {{.type = std::move(onnx), .since = std::move(since), .stable = 8, .import = import_without_consumed}};
  return op;
}

Expr fold_left(const std::vector<Expr>& operands, te::BinaryOp op) {
  Expr all = operands[0];
  for (size_t i = 1; i < operands.size(); ++i) all = te::binary(op, all, operands[i]);
  return all;
}

}  // namespace

ir::OpDef op_max() {
  ir::OpDef op = variadic("max", "The largest of its operands, element by element.", "Max", kNumbers, {1, 6, 8, 12, 13},
                          [](const auto& v) { return fold_left(v, te::BinaryOp::Max); });
  op.laws = {"max(?a, ?b) == max(?b, ?a)", "max(?a, ?a) == ?a"};
  return op;
}

ir::OpDef op_min() {
  ir::OpDef op = variadic("min", "The smallest of its operands, element by element.", "Min", kNumbers,
                          {1, 6, 8, 12, 13}, [](const auto& v) { return fold_left(v, te::BinaryOp::Min); });
  op.laws = {"min(?a, ?b) == neg(max(neg(?a), neg(?b)))"};
  return op;
}

ir::OpDef op_sum() {
  ir::OpDef op = variadic("sum", "The sum of its operands, element by element.", "Sum", kFloats, {1, 6, 8, 13},
                          [](const auto& v) { return fold_left(v, te::BinaryOp::Add); });
  op.laws = {"sum(?a, ?b) == add(?a, ?b)", "sum(?a, ?b, ?c) == add(add(?a, ?b), ?c)"};
  return op;
}

ir::OpDef op_mean() {
  return variadic("mean", "The mean of its operands, element by element.", "Mean", kFloats, {1, 6, 8, 13},
                  [](const auto& v) { return fold_left(v, te::BinaryOp::Add) / Expr(static_cast<int64_t>(v.size())); });
}

}  // namespace isomer::ops
