// Element-wise arithmetic with broadcasting.
#include "ir/op.h"
#include "ops/elementwise.h"

namespace isomer::ops {

using te::BinaryOp;
using te::Expr;

ir::OpDef op_add() {
  return binary({.name = "add",
                 .doc = "Element-wise sum.",
                 .types = kNumbers,
                 .onnx = {{.type = "Add", .since = {1, 6, 7, 13, 14}, .stable = 7}},
                 .laws = {"add(?a, ?b) == add(?b, ?a)", "add(?a, add(?b, ?c)) == add(add(?a, ?b), ?c)"}},
                [](const Expr& a, const Expr& b, const ir::OpContext&) { return a + b; });
}

ir::OpDef op_sub() {
  return binary({.name = "sub",
                 .doc = "Element-wise difference.",
                 .types = kNumbers,
                 .onnx = {{.type = "Sub", .since = {1, 6, 7, 13, 14}, .stable = 7}},
                 .laws = {"sub(?a, ?b) == add(?a, neg(?b))", "add(sub(?a, ?b), ?c) == sub(add(?a, ?c), ?b)"}},
                [](const Expr& a, const Expr& b, const ir::OpContext&) { return a - b; });
}

ir::OpDef op_mul() {
  return binary({.name = "mul",
                 .doc = "Element-wise product.",
                 .types = kNumbers,
                 .onnx = {{.type = "Mul", .since = {1, 6, 7, 13, 14}, .stable = 7}},
                 .laws = {"mul(?a, ?b) == mul(?b, ?a)", "mul(?a, mul(?b, ?c)) == mul(mul(?a, ?b), ?c)",
                          "mul(?a, add(?b, ?c)) == add(mul(?a, ?b), mul(?a, ?c))"}},
                [](const Expr& a, const Expr& b, const ir::OpContext&) { return a * b; });
}

ir::OpDef op_div() {
  return binary({.name = "div",
                 .doc = "Element-wise quotient; integers truncate to zero, and a zero divisor of theirs is an error.",
                 .types = kNumbers,
                 .onnx = {{.type = "Div", .since = {1, 6, 7, 13, 14}, .stable = 7}},
                 .laws = {"div(?a, ?b) == mul(?a, reciprocal(?b))"},
                 .samples = {"div(f32[2,3], f32[2,3])", "div(f32[2,1,3], f32[4,1])", "div(i32[2,3], i32[3] in 1..9)"}},
                [](const Expr& a, const Expr& b, const ir::OpContext&) { return a / b; });
}

ir::OpDef op_mod() {
  return binary({.name = "mod",
                 .doc = "Remainder: of the quotient rounded to minus infinity, or with fmod of the truncated one.",
                 .types = kNumbers,
                 .attrs = {{"fmod", ir::AttrKind::Int, int64_t{0}}},
                 .onnx = {{.type = "Mod", .since = {10, 13, 28}, .stable = 10}},
                 .samples = {"mod(i32[2,3], i32[3] in 1..9)", "mod(i32[2,3], i32[3] in -9..0){fmod=1}",
                             "mod(f32[2,3], f32[2,3]){fmod=1}", "mod(f32[2,3], f32[2,3])"}},
                [](const Expr& a, const Expr& b, const ir::OpContext& c) {
                  if (!c.flag("fmod") && !is_float(c.dtype(0))) return te::floor_mod(a, b);
                  const Expr rest = te::binary(BinaryOp::Rem, a, b), zero = cast(c.dtype(0), Expr(0));
                  if (c.flag("fmod")) return rest;
                  // A rest of the other sign than b is one quotient too far.
                  return select((rest < zero && zero < b) || (zero < rest && b < zero), rest + b, rest);
                });
}

ir::OpDef op_pow() {
  ir::OpDef op = binary({.name = "pow",
                         .doc = "x to the power y, in the type of x.",
                         .types = kNumbers,
                         .onnx = {{.type = "Pow", .since = {1, 7, 12, 13, 15}, .stable = 7}},
                         .samples = {"pow(f32[2,3], f32[] 2)", "pow(f32[2,3], i64[3] in 0..4)",
                                     "pow(i32[2,1], i32[3] in 0..5)", "pow(i32[2], f32[2] [0.5,2])"},
                         .inputs = {"x", "y"},
                         .output = "z"},
                        [](const Expr& x, const Expr& y, const ir::OpContext&) -> Expr {
                          const DType base = x.dtype(), exponent = y.dtype();
                          if (base == exponent) return pow(x, y);
                          DType common = DType::F64;
                          if (is_int(base) && is_int(exponent)) common = DType::I64;
                          if (is_float(base) && base != DType::F64 && exponent != DType::F64) common = DType::F32;
                          return cast(base, pow(cast(common, x), cast(common, y)));
                        });
  op.inputs[0].types = kFloats | DType::I32 | DType::I64;
  op.inputs[1].var = "T1";
  return op;
}

}  // namespace isomer::ops
