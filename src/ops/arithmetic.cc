// Element-wise arithmetic with broadcasting.
#include "ops/elementwise.h"
#include "ops/records.h"

namespace isomer::ops {

using te::Expr;

ir::OpDef op_add() {
  return binary({.name = "add",
                 .doc = "Element-wise sum.",
                 .types = kNumbers,
                 .onnx = {{.type = "Add", .since = {1, 6, 7, 13, 14}, .stable = 7}},
                 .laws = {"add(?a, ?b) == add(?b, ?a)", "add(?a, add(?b, ?c)) == add(add(?a, ?b), ?c)"}},
                [](const Expr& a, const Expr& b, const ir::OpContext&) { return a + b; });
}

ir::OpDef op_mul() {
  return binary({.name = "mul",
                 .doc = "Element-wise product.",
                 .types = kNumbers,
                 .onnx = {{.type = "Mul", .since = {1, 6, 7, 13, 14}, .stable = 7}},
                 .laws = {"mul(?a, ?b) == mul(?b, ?a)", "mul(?a, add(?b, ?c)) == add(mul(?a, ?b), mul(?a, ?c))"}},
                [](const Expr& a, const Expr& b, const ir::OpContext&) { return a * b; });
}

}  // namespace isomer::ops
