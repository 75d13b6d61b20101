// Activation functions.
#include <cmath>
#include <numbers>

#include <fmt/format.h>

#include "ir/op.h"
#include "ops/broadcast.h"
#include "ops/compose.h"
#include "ops/elementwise.h"
#include "ops/legacy.h"

namespace isomer::ops {
namespace {

using te::Expr;

ir::AttrDef real_attr(std::string name, double standard) { return {std::move(name), ir::AttrKind::Real, standard}; }

// A real literal beside x.
Expr number(const Expr& x, double v) { return Expr::real(x.dtype(), v); }

Expr logistic(const Expr& x) { return Expr(1) / (exp(-x) + 1); }

// log(1 + exp(x)) without an exp that overflows.
Expr soft_plus(const Expr& x) { return max(x, 0) + log(exp(-abs(x)) + 1); }

// Below opset 7 a slope of one axis belongs to the channels, axis 1.
Imported import_prelu(ir::ForeignNode& node, ir::GraphBuilder& builder) {
  if (node.version < 7 && node.inputs.size() == 2 && !node.inputs[0].is_none() && !node.inputs[1].is_none()) {
    node.attrs.erase("consumed_inputs");
    const Shape& x = builder.type(node.inputs[0]).shape;
    const Shape& slope = builder.type(node.inputs[1]).shape;
    if (x.has_rank() && slope.has_rank() && slope.rank() == 1 && x.rank() > 2 && !(slope[0] == Dim(1))) {
      ISOMER_TRY(node.inputs[1], append_unit_axes(builder, node.inputs[1], x.rank() - 2));
    }
  }
  return add_as_is(node, builder);
}

}  // namespace

ir::OpDef op_relu() {
  return unary({.name = "relu",
                .doc = "max(x, 0).",
                .types = kSignedNumbers,
                .onnx = {{.type = "Relu", .since = {1, 6, 13, 14}, .stable = 6}},
                .laws = {"relu(relu(?x)) == relu(?x)", "sub(relu(?x), relu(neg(?x))) == ?x"}},
               [](const Expr& x, const ir::OpContext&) { return max(x, 0); });
}

ir::OpDef op_sigmoid() {
  return unary(
      {.name = "sigmoid", .doc = "1 / (1 + exp(-x)).", .onnx = {{.type = "Sigmoid", .since = {1, 6, 13}, .stable = 6}}},
      [](const Expr& x, const ir::OpContext&) { return logistic(x); });
}

ir::OpDef op_leaky_relu() {
  return unary({.name = "leaky_relu",
                .doc = "x, or alpha * x where x is negative.",
                .attrs = {real_attr("alpha", 0.01)},
                .onnx = {{.type = "LeakyRelu", .since = {1, 6, 16}, .stable = 6}},
                .samples = {"leaky_relu(f32[2,3])", "leaky_relu(f32[2,3]){alpha=0.5}"}},
               [](const Expr& x, const ir::OpContext& c) { return select(x < 0, number(x, c.real("alpha")) * x, x); });
}

ir::OpDef op_prelu() {
  return binary({.name = "prelu",
                 .doc = "x, or slope * x where x is negative; the slope broadcasts to x.",
                 .types = kFloats | DType::I32 | DType::I64 | DType::U32 | DType::U64,
                 .onnx = {{.type = "PRelu", .since = {1, 6, 7, 9, 16}, .stable = 7, .import = import_prelu}},
                 .samples = {"prelu(f32[2,3], f32[2,3])", "prelu(f32[2,3,4], f32[3,1])", "prelu(i32[2], i32[1])"},
                 .inputs = {"x", "slope"},
                 .output = "y",
                 .check = [](const ir::OpContext& c) { return check_broadcasts_to(c, 1, c.shape(0).dims()); }},
                [](const Expr& x, const Expr& slope, const ir::OpContext&) { return select(x < 0, slope * x, x); });
}

ir::OpDef op_elu() {
  return unary({.name = "elu",
                .doc = "x, or alpha * (exp(x) - 1) where x is negative.",
                .attrs = {real_attr("alpha", 1)},
                .onnx = {{.type = "Elu", .since = {1, 6, 22}, .stable = 6}},
                .samples = {"elu(f32[2,3])", "elu(f32[2,3]){alpha=2.0}"}},
               [](const Expr& x, const ir::OpContext& c) {
                 return select(x < 0, number(x, c.real("alpha")) * (exp(x) - 1), x);
               });
}

ir::OpDef op_selu() {
  return unary({.name = "selu",
                .doc = "gamma * x, or gamma * alpha * (exp(x) - 1) where x is negative.",
                .attrs = {real_attr("alpha", 1.67326319217681884765625), real_attr("gamma", 1.05070102214813232421875)},
                .onnx = {{.type = "Selu", .since = {1, 6, 22}, .stable = 6}},
                .samples = {"selu(f32[2,3])", "selu(f32[2,3]){alpha=2.0,gamma=3.0}"}},
               [](const Expr& x, const ir::OpContext& c) {
                 return number(x, c.real("gamma")) * select(x < 0, number(x, c.real("alpha")) * (exp(x) - 1), x);
               });
}

ir::OpDef op_celu() {
  return unary({.name = "celu",
                .doc = "max(x, 0) + min(0, alpha * (exp(x / alpha) - 1)).",
                .attrs = {real_attr("alpha", 1)},
                .onnx = {{.type = "Celu", .since = {12}, .stable = 12}},
                .samples = {"celu(f32[2,3])", "celu(f32[2,3]){alpha=2.0}"}},
               [](const Expr& x, const ir::OpContext& c) {
                 const Expr alpha = number(x, c.real("alpha"));
                 return max(x, 0) + min(alpha * (exp(x / alpha) - 1), 0);
               });
}

ir::OpDef op_thresholded_relu() {
  return unary({.name = "thresholded_relu",
                .doc = "x where it is above alpha, else 0.",
                .attrs = {real_attr("alpha", 1)},
                .onnx = {{.type = "ThresholdedRelu", .since = {10, 22}, .stable = 10}},
                .samples = {"thresholded_relu(f32[2,3])", "thresholded_relu(f32[2,3]){alpha=0.25}"}},
               [](const Expr& x, const ir::OpContext& c) { return select(x > number(x, c.real("alpha")), x, 0); });
}

ir::OpDef op_hard_sigmoid() {
  return unary({.name = "hard_sigmoid",
                .doc = "alpha * x + beta, brought into [0, 1].",
                .attrs = {real_attr("alpha", 0.2), real_attr("beta", 0.5)},
                .onnx = {{.type = "HardSigmoid", .since = {1, 6, 22}, .stable = 6}},
                .samples = {"hard_sigmoid(f32[2,3])", "hard_sigmoid(f32[2,3]){alpha=0.5,beta=0.25}"}},
               [](const Expr& x, const ir::OpContext& c) {
                 return max(min(number(x, c.real("alpha")) * x + number(x, c.real("beta")), 1), 0);
               });
}

ir::OpDef op_hard_swish() {
  return unary({.name = "hard_swish",
                .doc = "x * (x / 6 + 1 / 2 brought into [0, 1]).",
                .onnx = {{.type = "HardSwish", .since = {14, 22}, .stable = 14}}},
               [](const Expr& x, const ir::OpContext&) { return x * max(min(x / 6 + number(x, 0.5), 1), 0); });
}

ir::OpDef op_softplus() {
  return unary({.name = "softplus", .doc = "log(1 + exp(x)).", .onnx = {{.type = "Softplus", .since = {1, 22}}}},
               [](const Expr& x, const ir::OpContext&) { return soft_plus(x); });
}

ir::OpDef op_softsign() {
  return unary({.name = "softsign",
                .doc = "x / (1 + |x|).",
                .onnx = {{.type = "Softsign", .since = {1, 22}}},
                .inputs = {"input"},
                .output = "output"},
               [](const Expr& x, const ir::OpContext&) { return x / (abs(x) + 1); });
}

ir::OpDef op_mish() {
  return unary({.name = "mish",
                .doc = "x * tanh(log(1 + exp(x))).",
                .onnx = {{.type = "Mish", .since = {18, 22}, .stable = 18}}},
               [](const Expr& x, const ir::OpContext&) { return x * tanh(soft_plus(x)); });
}

ir::OpDef op_swish() {
  return unary({.name = "swish",
                .doc = "x * sigmoid(alpha * x).",
                .attrs = {real_attr("alpha", 1)},
                .onnx = {{.type = "Swish", .since = {24}, .stable = 24}},
                .laws = {"swish(?x) == mul(?x, sigmoid(?x))"},
                .samples = {"swish(f32[2,3])", "swish(f32[2,3]){alpha=2.0}"}},
               [](const Expr& x, const ir::OpContext& c) { return x * logistic(number(x, c.real("alpha")) * x); });
}

ir::OpDef op_swi_glu() {
  ir::OpDef op;
  op.name = "swi_glu";
  op.doc = "A gate through swish, times the other input.";
  op.inputs = {{"a", "T", kFloats}, {"b", "T", kFloats}};
  op.outputs = {{"y", "T"}};
  op.attrs = {real_attr("alpha", 1)};
  op.expand = [](const ir::OpContext& c, ir::GraphBuilder& b,
                 std::span<const ir::Value> in) -> Expected<std::vector<ir::Value>> {
    Compose f(b);
    return f.finish({f.mul(f("swish", {in[0]}, {{"alpha", c.real("alpha")}}), in[1])});
  };
  op.samples = {"swi_glu(f32[2,3], f32[2,3])", "swi_glu(f32[2,3], f32[2,3]){alpha=1.5}"};
  op.onnx = {{.type = "SwiGLU", .since = {28}, .stable = 28}};
  return op;
}

ir::OpDef op_gelu() {
  return unary({.name = "gelu",
                .doc = "x times the normal distribution function at x, or the approximation of it by tanh.",
                .attrs = {{"approximate", ir::AttrKind::String, std::string("none")}},
                .onnx = {{.type = "Gelu", .since = {20}, .stable = 20}},
                .samples = {"gelu(f32[2,3])", "gelu(f32[2,3]){approximate=\"tanh\"}"},
                .check = [](const ir::OpContext& c) -> Expected<void> {
                  const std::string& a = c.text("approximate");
                  if (a == "none" || a == "tanh") return {};
                  return c.error(fmt::format("approximate is {}, expected \"none\" or \"tanh\"", quoted(a)));
                }},
               [](const Expr& x, const ir::OpContext& c) {
                 const Expr inner =
                     c.text("approximate") == "none"
                         ? erf(x * number(x, std::numbers::sqrt2 / 2))
                         : tanh(number(x, std::sqrt(2 / std::numbers::pi)) * (x + number(x, 0.044715) * x * x * x));
                 return number(x, 0.5) * x * (inner + 1);
               });
}

ir::OpDef op_shrink() {
  return unary({.name = "shrink",
                .doc = "x moved towards 0 by bias where |x| is above lambd, else 0.",
                .types = kNumbers,
                .attrs = {real_attr("bias", 0), real_attr("lambd", 0.5)},
                .onnx = {{.type = "Shrink", .since = {9}, .stable = 9}},
                .samples = {"shrink(f32[2,3])", "shrink(f32[2,3]){bias=0.25,lambd=0.25}", "shrink(i32[5]){lambd=1.5}"},
                .inputs = {"input"},
                .output = "output"},
               [](const Expr& given, const ir::OpContext& c) {
                 const Expr x = cast(real_type(given.dtype()), given);
                 const Expr lambd = number(x, c.real("lambd")), bias = number(x, c.real("bias"));
                 return cast(given.dtype(), select(x < -lambd, x + bias, select(x > lambd, x - bias, 0)));
               });
}

}  // namespace isomer::ops
