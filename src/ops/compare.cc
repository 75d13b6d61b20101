// Element-wise tests: comparisons with broadcasting, and what kind of number an element is.
#include "ir/op.h"
#include "ops/elementwise.h"

namespace isomer::ops {
namespace {

using te::Expr;

ir::OpDef comparison(std::string name, std::string doc, std::string onnx, std::vector<int> since, DTypeSet types,
                     Expr (*f)(Expr, Expr), std::vector<std::string> laws) {
  const int stable = since[0] == 1 ? 7 : since[0];
  return binary({.name = std::move(name),
                 .doc = std::move(doc),
                 .types = types,
                 .result = "bool",
                 .onnx = {{.type = std::move(onnx), .since = std::move(since), .stable = stable}},
                 .laws = std::move(laws)},
                [f](const Expr& a, const Expr& b, const ir::OpContext&) { return f(a, b); });
}

}  // namespace

ir::OpDef op_equal() {
  return comparison("equal", "Whether a and b are equal.", "Equal", {1, 7, 11, 13, 19}, kAllTypes, te::eq,
                    {"equal(?a, ?b) == equal(?b, ?a)"});
}
ir::OpDef op_less() {
  return comparison("less", "Whether a is below b.", "Less", {1, 7, 9, 13}, kNumbers, te::operator<,
                    {"less(?a, ?b) == greater(?b, ?a)"});
}
ir::OpDef op_greater() {
  return comparison("greater", "Whether a is above b.", "Greater", {1, 7, 9, 13}, kNumbers, te::operator>, {});
}
ir::OpDef op_less_or_equal() {
  return comparison("less_or_equal", "Whether a is at most b.", "LessOrEqual", {12, 16}, kNumbers, te::operator<=,
                    {"less_or_equal(?a, ?b) == not(greater(?a, ?b))"});
}
ir::OpDef op_greater_or_equal() {
  return comparison("greater_or_equal", "Whether a is at least b.", "GreaterOrEqual", {12, 16}, kNumbers,
                    te::operator>=, {"greater_or_equal(?a, ?b) == less_or_equal(?b, ?a)"});
}

ir::OpDef op_is_nan() {
  return unary({.name = "is_nan",
                .doc = "Whether x is not a number.",
                .result = "bool",
                .onnx = {{.type = "IsNaN", .since = {9, 13, 20}, .stable = 9}}},
               [](const Expr& x, const ir::OpContext&) { return te::unary(te::UnaryOp::IsNan, x); });
}

ir::OpDef op_is_inf() {
  return unary(
      {.name = "is_inf",
       .doc = "Whether x is an infinity of a sign that is asked for.",
       .result = "bool",
       .attrs = {{"detect_negative", ir::AttrKind::Int, int64_t{1}},
                 {"detect_positive", ir::AttrKind::Int, int64_t{1}}},
       .onnx = {{.type = "IsInf", .since = {10, 20}, .stable = 10}},
       .samples = {"is_inf(f32[2,3])", "is_inf(f32[2,3]){detect_negative=0}", "is_inf(f32[3]){detect_positive=0}"}},
      [](const Expr& x, const ir::OpContext& c) -> Expr {
        const bool below = c.flag("detect_negative"), above = c.flag("detect_positive");
        if (!below && !above) return te::truth(false);
        const Expr infinite = te::unary(te::UnaryOp::IsInf, x);
        return below && above ? infinite : infinite && (above ? x > 0 : x < 0);
      });
}

}  // namespace isomer::ops
