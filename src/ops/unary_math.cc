// Functions of one number, element by element.
#include "ir/op.h"
#include "ops/elementwise.h"

namespace isomer::ops {
namespace {

using te::Expr;
using te::UnaryOp;

// A function that is one te operation. ONNX names the operand of the newer ones "input".
ir::OpDef function(std::string name, std::string doc, UnaryOp f, std::string onnx, std::vector<int> since,
                   DTypeSet types = kFloats) {
  const int stable = since[0] == 1 ? 6 : since[0];
  const bool newer = f != UnaryOp::Neg && f != UnaryOp::Abs && f != UnaryOp::Sqrt && f != UnaryOp::Floor &&
                     f != UnaryOp::Ceil && f != UnaryOp::Round;
  return unary({.name = std::move(name),
                .doc = std::move(doc),
                .types = types,
                .onnx = {{.type = std::move(onnx), .since = std::move(since), .stable = stable}},
                .inputs = {newer ? "input" : "x"},
                .output = newer ? "output" : "y"},
               [f](const Expr& x, const ir::OpContext&) { return te::unary(f, x); });
}

}  // namespace

ir::OpDef op_abs() {
  ir::OpDef op = function("abs", "Absolute value.", UnaryOp::Abs, "Abs", {1, 6, 13}, kNumbers);
  op.laws = {"abs(abs(?x)) == abs(?x)", "abs(neg(?x)) == abs(?x)"};
  return op;
}

ir::OpDef op_neg() {
  ir::OpDef op = function("neg", "The negative.", UnaryOp::Neg, "Neg", {1, 6, 13}, kSignedNumbers);
  op.laws = {"neg(neg(?x)) == ?x", "neg(mul(?x, ?y)) == mul(neg(?x), ?y)"};
  return op;
}

ir::OpDef op_exp() { return function("exp", "e to the power x.", UnaryOp::Exp, "Exp", {1, 6, 13}); }
ir::OpDef op_log() { return function("log", "Natural logarithm.", UnaryOp::Log, "Log", {1, 6, 13}); }
ir::OpDef op_sqrt() { return function("sqrt", "Square root.", UnaryOp::Sqrt, "Sqrt", {1, 6, 13}); }
ir::OpDef op_floor() { return function("floor", "Rounds down.", UnaryOp::Floor, "Floor", {1, 6, 13}); }
ir::OpDef op_ceil() { return function("ceil", "Rounds up.", UnaryOp::Ceil, "Ceil", {1, 6, 13}); }
ir::OpDef op_round() {
  return function("round", "Rounds to nearest, ties to even.", UnaryOp::Round, "Round", {11, 22});
}
ir::OpDef op_sin() { return function("sin", "Sine.", UnaryOp::Sin, "Sin", {7, 22}); }
ir::OpDef op_cos() { return function("cos", "Cosine.", UnaryOp::Cos, "Cos", {7, 22}); }
ir::OpDef op_tan() { return function("tan", "Tangent.", UnaryOp::Tan, "Tan", {7, 22}); }
ir::OpDef op_asin() { return function("asin", "Inverse sine.", UnaryOp::Asin, "Asin", {7, 22}); }
ir::OpDef op_acos() { return function("acos", "Inverse cosine.", UnaryOp::Acos, "Acos", {7, 22}); }
ir::OpDef op_atan() { return function("atan", "Inverse tangent.", UnaryOp::Atan, "Atan", {7, 22}); }
ir::OpDef op_sinh() { return function("sinh", "Hyperbolic sine.", UnaryOp::Sinh, "Sinh", {9, 22}); }
ir::OpDef op_cosh() { return function("cosh", "Hyperbolic cosine.", UnaryOp::Cosh, "Cosh", {9, 22}); }
ir::OpDef op_tanh() { return function("tanh", "Hyperbolic tangent.", UnaryOp::Tanh, "Tanh", {1, 6, 13}); }
ir::OpDef op_asinh() { return function("asinh", "Inverse hyperbolic sine.", UnaryOp::Asinh, "Asinh", {9, 22}); }
ir::OpDef op_acosh() { return function("acosh", "Inverse hyperbolic cosine.", UnaryOp::Acosh, "Acosh", {9, 22}); }
ir::OpDef op_atanh() { return function("atanh", "Inverse hyperbolic tangent.", UnaryOp::Atanh, "Atanh", {9, 22}); }

ir::OpDef op_erf() {
  return unary({.name = "erf",
                .doc = "The error function; of an integer, truncated.",
                .types = kNumbers,
                .onnx = {{.type = "Erf", .since = {9, 13}, .stable = 9}},
                .inputs = {"input"},
                .output = "output"},
               [](const Expr& x, const ir::OpContext&) {
                 return is_float(x.dtype()) ? erf(x) : cast(x.dtype(), erf(cast(DType::F64, x)));
               });
}

ir::OpDef op_sign() {
  return unary({.name = "sign",
                .doc = "1, 0 or -1, as the sign of x.",
                .types = kNumbers,
                .onnx = {{.type = "Sign", .since = {9, 13}, .stable = 9}},
                .laws = {"mul(sign(?x), abs(?x)) == ?x"},
                .inputs = {"input"},
                .output = "output"},
               [](const Expr& x, const ir::OpContext&) -> Expr {
                 if (is_unsigned_int(x.dtype())) return min(x, 1);
                 const auto unit = [&](double v) { return Expr::literal(x.dtype(), v); };
                 // The last branch is zero, and NaN stays NaN.
                 return select(x > 0, unit(1), select(x < 0, unit(-1), x));
               });
}

ir::OpDef op_reciprocal() {
  return unary({.name = "reciprocal",
                .doc = "1 / x.",
                .onnx = {{.type = "Reciprocal", .since = {1, 6, 13}, .stable = 6}},
                .laws = {"reciprocal(mul(?x, ?y)) == mul(reciprocal(?x), reciprocal(?y))"}},
               [](const Expr& x, const ir::OpContext&) { return Expr(1) / x; });
}

}  // namespace isomer::ops
