// Steps of optimisers. Each takes a rate, the number of steps done, and groups of tensors: all parameters, then all
// gradients, then the states; it gives the new parameters and the new states in the same order.
#include <fmt/format.h>

#include "ir/op.h"

namespace isomer::ops {
namespace {

using ir::AttrKind;
using te::Expr;

// One element: the numbers of its group in, the new ones out.
struct Step {
  Expr rate, count;         // in the parameter's type
  std::vector<Expr> group;  // parameter, gradient, states
};
using Update = std::function<std::vector<Expr>(const ir::OpContext&, const Step&)>;

// How many parameters there are; `parts`: tensors of one group.
Expected<size_t> groups(const ir::OpContext& c, size_t parts) {
  const size_t given = c.input_count() < 2 ? 0 : c.input_count() - 2, n = given / parts;
  if (n == 0 || given % parts != 0)
    return c.error(fmt::format("expected {} tensors for each parameter, found {}", parts, given));
  if (c.output_count() != n * (parts - 1))
    return c.error(
        fmt::format("expected {} outputs for {} parameters, found {}", n * (parts - 1), n, c.output_count()));
  for (size_t i : {0, 1})
    if (c.shape(i).has_rank() && c.shape(i).elements().is_const() && !(c.shape(i).elements() == Dim(1)))
      return c.error(fmt::format("input '{}' has more or less than one element", c.op().inputs[i].name));
  for (size_t i = 2; i < c.input_count(); ++i) {
    const size_t parameter = 2 + (i - 2) % n;
    if (!c.has(i)) return c.error(fmt::format("input {} is missing", i));
    if (c.dtype(i) != c.dtype(parameter) ||
        (c.shape(i).has_rank() && c.shape(parameter).has_rank() && !(c.shape(i) == c.shape(parameter))))
      return c.error(
          fmt::format("input {} is {}, its parameter is {}", i, c.type(i).to_string(), c.type(parameter).to_string()));
  }
  return n;
}

ir::OpDef optimizer(std::string name, std::string doc, const char* type, size_t parts, Update update) {
  ir::OpDef op;
  op.name = std::move(name);
  op.doc = std::move(doc);
  const DTypeSet types = DTypeSet(DType::F32) | DType::F64;
  op.inputs = {{"r", "T1", types}, {"t", "T2", DType::I64}, {"inputs", "", types, ir::Arity::Variadic, 3}};
  op.outputs = {{"outputs", "T3", ir::Arity::Variadic}};
  op.infer = [parts](const ir::OpContext& c) -> Expected<std::vector<Type>> {
    ISOMER_TRY(const size_t n, groups(c, parts));
    std::vector<Type> results;
    for (size_t k = 0; k < c.output_count(); ++k) results.push_back(c.type(2 + k % n));
    return results;
  };
  op.infer_unranked = true;
  op.compute = [parts, update = std::move(update)](const ir::OpContext& c) -> Expected<te::Program> {
    ISOMER_TRY(const size_t n, groups(c, parts));
    te::Builder b;
    const auto in = c.declare(b);
    const auto one = [&](size_t i, DType t) { return cast(t, in[i].at(std::vector<Expr>(in[i].rank(), Expr(0)))); };
    std::vector<te::Handle> results;
    for (size_t k = 0; k < c.output_count(); ++k) {
      const DType t = c.dtype(2 + k % n);
      results.push_back(b.map(fmt::format("new{}", k), t, in[2 + k % n].dims(), [&](auto i) {
        Step step{one(0, t), one(1, t), {}};
        for (size_t p = 0; p < parts; ++p) step.group.push_back(in[2 + k % n + p * n].at({i.begin(), i.end()}));
        return update(c, step)[k / n];
      }));
    }
    return b.finish(std::move(results));
  };
  op.onnx = {{.type = type, .since = {1}, .domain = "ai.onnx.preview.training"}};
  return op;
}

Expr number(const ir::OpContext& c, const Step& s, const char* attribute) {
  return Expr::real(s.rate.dtype(), c.real(attribute));
}
// The gradient of the loss with the weight of the parameters' norm in it.
Expr gradient(const ir::OpContext& c, const Step& s) {
  return number(c, s, "norm_coefficient") * s.group[0] + s.group[1];
}

}  // namespace

ir::OpDef op_train_adagrad() {
  ir::OpDef op =
      optimizer("train_adagrad", "A step of Adagrad: the rate falls with the squares of the gradients so far.",
                "Adagrad", 3, [](const ir::OpContext& c, const Step& s) {
                  const Expr rate = s.rate / (s.count * number(c, s, "decay_factor") + 1);
                  const Expr g = gradient(c, s), h = s.group[2] + g * g;
                  return std::vector{s.group[0] - rate * g / (sqrt(h) + number(c, s, "epsilon")), h};
                });
  op.attrs = {{"decay_factor", AttrKind::Real, 0.0},
              {"epsilon", AttrKind::Real, 1e-6},
              {"norm_coefficient", AttrKind::Real, 0.0}};
  op.samples = {"train_adagrad(f32 0.1, i64 2, f32[3], f32[3], f32[3] in 0..2){decay_factor=0.5} -> 2",
                "train_adagrad(f64[1] [0.1], i64 0, f64[2], f32[4], f64[2], f32[4], f64[2] in 0..2, f32[4] in 0..2)"
                "{norm_coefficient=0.25, epsilon=0.01} -> 4"};
  return op;
}

ir::OpDef op_train_adam() {
  ir::OpDef op =
      optimizer("train_adam", "A step of Adam: means of the gradients and of their squares, corrected for their start.",
                "Adam", 4, [](const ir::OpContext& c, const Step& s) {
                  const Expr alpha = number(c, s, "alpha"), beta = number(c, s, "beta"), g = gradient(c, s);
                  const Expr v = alpha * s.group[2] + (1 - alpha) * g, h = beta * s.group[3] + (1 - beta) * (g * g);
                  const Expr corrected = s.rate * sqrt(1 - pow(beta, s.count)) / (1 - pow(alpha, s.count));
                  const Expr rate = select(s.count > 0, corrected, s.rate);
                  const Expr x = s.group[0] - rate * v / (sqrt(h) + number(c, s, "epsilon"));
                  return std::vector{(1 - number(c, s, "norm_coefficient_post")) * x, v, h};
                });
  op.attrs = {{"alpha", AttrKind::Real, 0.9},
              {"beta", AttrKind::Real, 0.999},
              {"epsilon", AttrKind::Real, 1e-6},
              {"norm_coefficient", AttrKind::Real, 0.0},
              {"norm_coefficient_post", AttrKind::Real, 0.0}};
  op.samples = {"train_adam(f32 0.1, i64 2, f32[3], f32[3], f32[3], f32[3] in 0..2) -> 3",
                "train_adam(f32 0.1, i64 0, f32[2,2], f32[2,2], f32[2,2], f32[2,2] in 0..2)"
                "{alpha=0.5, norm_coefficient=0.25, norm_coefficient_post=0.125} -> 3"};
  return op;
}

ir::OpDef op_train_momentum() {
  ir::OpDef op = optimizer("train_momentum", "A step along a running mean of the gradients, or ahead of it (nesterov).",
                           "Momentum", 3, [](const ir::OpContext& c, const Step& s) {
                             const Expr alpha = number(c, s, "alpha"), g = gradient(c, s);
                             const Expr one = Expr::real(s.rate.dtype(), 1);
                             const Expr beta = select(s.count > 0, number(c, s, "beta"), one);
                             const Expr v = alpha * s.group[2] + beta * g;
                             const Expr along = c.text("mode") == "nesterov" ? g + alpha * v : v;
                             return std::vector{s.group[0] - s.rate * along, v};
                           });
  op.attrs = {{.name = "alpha", .kind = AttrKind::Real, .required = true},
              {.name = "beta", .kind = AttrKind::Real, .required = true},
              {.name = "mode", .kind = AttrKind::String, .required = true},
              {.name = "norm_coefficient", .kind = AttrKind::Real, .required = true}};
  op.infer = [types = op.infer](const ir::OpContext& c) -> Expected<std::vector<Type>> {
    if (c.text("mode") != "standard" && c.text("mode") != "nesterov")
      return c.error(fmt::format("unknown mode {}; it is standard or nesterov", quoted(c.text("mode"))));
    return types(c);
  };
  op.samples = {
      "train_momentum(f32 0.1, i64 2, f32[3], f32[3], f32[3])"
      "{alpha=0.5, beta=0.25, mode=\"standard\", norm_coefficient=0.125} -> 2",
      "train_momentum(f32 0.1, i64 0, f32[3], f32[3], f32[3])"
      "{alpha=0.5, beta=0.25, mode=\"nesterov\", norm_coefficient=0.0} -> 2"};
  return op;
}

}  // namespace isomer::ops
