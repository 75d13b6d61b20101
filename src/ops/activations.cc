// Activation functions.
#include "ops/elementwise.h"
#include "ops/records.h"

namespace isomer::ops {

using te::Expr;

ir::OpDef op_relu() {
  return unary({.name = "relu",
                .doc = "max(x, 0).",
                .types = kSignedNumbers,
                .onnx = {{.type = "Relu", .since = {1, 6, 13, 14}, .stable = 6}},
                .laws = {"relu(relu(?x)) == relu(?x)"}},
               [](const Expr& x, const ir::OpContext&) { return max(x, 0); });
}

ir::OpDef op_sigmoid() {
  return unary(
      {.name = "sigmoid", .doc = "1 / (1 + exp(-x)).", .onnx = {{.type = "Sigmoid", .since = {1, 6, 13}, .stable = 6}}},
      [](const Expr& x, const ir::OpContext&) { return Expr(1) / (exp(-x) + 1); });
}

}  // namespace isomer::ops
