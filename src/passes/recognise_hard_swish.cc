// clip(x + 3, 0, 6) / 6 is a hard sigmoid, and x times that is hard swish.
#include "passes/editor.h"
#include "passes/numbers.h"

namespace isomer::passes {
namespace {

double real(const ir::Node& n, std::string_view name) {
  const double* given = n.attrs.get<double>(name);
  return given ? *given : std::get<double>(*n.op->attr(name)->standard);
}

// v brought into [0, 6]: what is brought there, or none.
Value clipped_to_six(const Editor& e, Value v) {
  const DType t = e.type(v).dtype;
  if (const ir::Node* n = e.made_by(v, "clip"); n && n->inputs.size() == 3) {
    const auto low = number(e, n->inputs[1], 0), high = number(e, n->inputs[2], 0);
    return low && high && *low == 0 && is_near(*high, 6, t) ? n->inputs[0] : Value::none();
  }
  const auto least = beside_number(e, v, "min");
  if (!least || !is_near(least->number, 6, t)) return Value::none();
  const ir::Node* relu = e.made_by(least->other, "relu");
  return relu ? relu->inputs[0] : Value::none();
}

// v is (x / 6 + 1 / 2 brought into [0, 1]) * constant: the constant.
std::optional<double> gate_weight(const Editor& e, Value v, Value x) {
  const DType t = e.type(x).dtype;
  if (const ir::Node* n = e.made_by(v, "hard_sigmoid"))
    return n->inputs[0] == x && is_near(real(*n, "alpha"), 1.0 / 6, t) && is_near(real(*n, "beta"), 0.5, t)
               ? std::optional(1.0)
               : std::nullopt;
  const Value inner = clipped_to_six(e, v);
  return !inner.is_none() && is_polynomial(e, inner, x, {3, 1}) ? std::optional(6.0) : std::nullopt;
}

bool recognise_swish(Editor& e, uint32_t id) {
  const auto p = product(e, {id, 0});
  if (!p || p->factors.size() != 2) return false;
  for (size_t i : {0, 1}) {
    const Value x = p->factors[1 - i];
    const auto weight = e.type(x) == e.type({id, 0}) ? gate_weight(e, p->factors[i], x) : std::nullopt;
    if (weight && is_near(p->constant * *weight, 1, e.type(x).dtype))
      return e.replace({id, 0}, e.add("hard_swish", {x}));
  }
  return false;
}

bool recognise_sigmoid(Editor& e, uint32_t id) {
  const auto p = product(e, {id, 0});
  if (!p || p->factors.size() != 1 || !is_near(p->constant, 1.0 / 6, e.type({id, 0}).dtype)) return false;
  const Value inner = clipped_to_six(e, p->factors[0]);
  const auto sum = inner.is_none() ? std::nullopt : beside_number(e, inner, "add");
  if (!sum || !is_near(sum->number, 3, e.type(inner).dtype) || !(e.type(sum->other) == e.type({id, 0}))) return false;
  return e.replace({id, 0}, e.add("hard_sigmoid", {sum->other}, {{"alpha", 1.0 / 6}, {"beta", 0.5}}));
}

}  // namespace

Expected<ir::Graph> recognise_hard_swish(const ir::Graph& graph, PassContext& context) {
  return rewrite_everywhere(graph, context, [](Editor& e, uint32_t id) {
    const std::string& op = e.node(id).op->name;
    return (op == "mul" || op == "div") && (recognise_swish(e, id) || recognise_sigmoid(e, id));
  });
}

}  // namespace isomer::passes
