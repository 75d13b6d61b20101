// c * x * (1 + erf(x / sqrt 2)) and c * x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3))) with c = 1/2, in any order.
#include <cmath>
#include <numbers>

#include "passes/editor.h"
#include "passes/numbers.h"

namespace isomer::passes {
namespace {

struct Gate {
  Value inner;  // erf(...) or tanh(...)
  double weight = 0;
};

// w + w * inner, with the common w; 1 + inner has w = 1.
std::optional<Gate> gate(const Editor& e, Value v) {
  const auto sum = beside_number(e, v, "add");
  if (!sum) return std::nullopt;
  Gate g{sum->other, 1};
  if (const auto p = product(e, sum->other); p && p->factors.size() == 1) g = {p->factors[0], p->constant};
  if (!is_near(g.weight, sum->number, e.type(v).dtype)) return std::nullopt;
  return g;
}

std::optional<std::string> approximation(const Editor& e, Value inner, Value x) {
  const double root = std::sqrt(2 / std::numbers::pi);
  if (const ir::Node* erf = e.made_by(inner, "erf");
      erf && is_polynomial(e, erf->inputs[0], x, {0, std::numbers::sqrt2 / 2}))
    return "none";
  if (const ir::Node* tanh = e.made_by(inner, "tanh");
      tanh && is_polynomial(e, tanh->inputs[0], x, {0, root, 0, root * 0.044715}))
    return "tanh";
  return std::nullopt;
}

bool recognise_gelu_at(Editor& e, uint32_t id) {
  const auto p = product(e, {id, 0});
  if (!p || p->factors.size() != 2) return false;
  for (size_t i : {0, 1}) {
    const Value x = p->factors[1 - i];
    const auto g = gate(e, p->factors[i]);
    if (!g || !(e.type(x) == e.type({id, 0})) || !is_near(p->constant * g->weight, 0.5, e.type(x).dtype)) continue;
    if (const auto approximate = approximation(e, g->inner, x))
      return e.replace({id, 0}, e.add("gelu", {x}, {{"approximate", *approximate}}));
  }
  return false;
}

}  // namespace

Expected<ir::Graph> recognise_gelu(const ir::Graph& graph, PassContext& context) {
  return rewrite_everywhere(graph, context, [](Editor& e, uint32_t id) {
    const std::string& op = e.node(id).op->name;
    return (op == "mul" || op == "div") && recognise_gelu_at(e, id);
  });
}

}  // namespace isomer::passes
