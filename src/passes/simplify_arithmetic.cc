// Arithmetic with constants in its cheapest form: neutral elements go, neighbouring constants become one, quotients by
// constants become products, and small powers become products and roots.
#include <algorithm>
#include <cmath>

#include "passes/editor.h"
#include "passes/fold.h"
#include "passes/numbers.h"

namespace isomer::passes {
namespace {

bool all_are(const Tensor& t, double value) {
  for (int64_t i = 0; i < t.size(); ++i)
    if ((is_float(t.dtype()) ? t.real(i) : real_from_int(t.dtype(), t.integer(i))) != value) return false;
  return true;
}

// x op c, or c op x where the operator commutes.
struct WithConstant {
  Value x, c;
};
std::optional<WithConstant> with_constant(const Editor& e, Value v) {
  if (v.is_none() || v.index != 0) return std::nullopt;
  const ir::Node& n = e.node(v.node);
  const std::string& op = n.op->name;
  const bool commutes = op == "add" || op == "mul";
  if (!commutes && op != "sub" && op != "div" && op != "pow") return std::nullopt;
  if (e.constant(n.inputs[1]) && !e.constant(n.inputs[0])) return WithConstant{n.inputs[0], n.inputs[1]};
  if (commutes && e.constant(n.inputs[0]) && !e.constant(n.inputs[1])) return WithConstant{n.inputs[1], n.inputs[0]};
  return std::nullopt;
}

bool drop_neutral(Editor& e, uint32_t id, const WithConstant& w) {
  const std::string& op = e.node(id).op->name;
  const double neutral = op == "add" || op == "sub" ? 0 : 1;
  return e.type(w.x) == e.type({id, 0}) && all_are(*e.constant(w.c), neutral) && e.replace({id, 0}, w.x);
}

// x / c -> x * (1 / c)
bool multiply_instead(Editor& e, uint32_t id, const WithConstant& w) {
  const Tensor& c = *e.constant(w.c);
  if (!is_float(c.dtype())) return false;
  const Value inverse = folded(e, "reciprocal", {w.c});
  if (inverse.is_none()) return false;
  const Tensor& t = *e.constant(inverse);
  for (int64_t i = 0; i < t.size(); ++i)
    if (!std::isnormal(t.real(i)) || !std::isnormal(c.real(i))) return false;
  return e.replace({id, 0}, e.add("mul", {w.x, inverse}));
}

// (x + c) + d -> x + (c + d), and the same for products.
bool merge(Editor& e, uint32_t id, const WithConstant& outer) {
  const std::string& op = e.node(id).op->name;
  const auto inner = e.uses(outer.x) == 1 ? with_constant(e, outer.x) : std::nullopt;
  if (!inner) return false;
  const std::string& before = e.node(outer.x.node).op->name;
  const bool sums = (op == "add" || op == "sub") && (before == "add" || before == "sub");
  if (!sums && !(op == "mul" && before == "mul")) return false;
  const bool negative = before == "sub";  // x - c + d = x - (c - d)
  const Value both = !sums      ? folded(e, "mul", {inner->c, outer.c})
                     : negative ? folded(e, op == "add" ? "sub" : "add", {inner->c, outer.c})
                                : folded(e, op, {inner->c, outer.c});
  if (both.is_none()) return false;
  const Tensor& t = *e.constant(both);
  if (t.size() > std::max(e.constant(inner->c)->size(), e.constant(outer.c)->size())) return false;
  if (is_float(t.dtype()))
    for (int64_t i = 0; i < t.size(); ++i)
      if (!std::isfinite(t.real(i))) return false;
  const Value made = e.add(before, {inner->x, both});
  return !made.is_none() && e.type(made) == e.type({id, 0}) && e.replace({id, 0}, made);
}

// A power of one small exponent by cheaper means.
bool reduce_power(Editor& e, uint32_t id, const WithConstant& w) {
  if (!is_float(e.type(w.x).dtype) || !(e.type(w.x) == e.type({id, 0}))) return false;
  const Tensor& c = *e.constant(w.c);
  if (c.size() != 1) return false;
  const double exponent = is_float(c.dtype()) ? c.real(0) : real_from_int(c.dtype(), c.integer(0));
  const Value x = w.x;
  Value y = Value::none();
  if (exponent == 2) y = e.add("mul", {x, x});
  if (exponent == 3) y = e.add("mul", {e.add("mul", {x, x}), x});
  if (exponent == 0.5) y = e.add("sqrt", {x});
  if (exponent == -1) y = e.add("reciprocal", {x});
  if (exponent == -0.5) y = e.add("reciprocal", {e.add("sqrt", {x})});
  return e.replace({id, 0}, y);
}

}  // namespace

Expected<ir::Graph> simplify_arithmetic(const ir::Graph& graph, PassContext& context) {
  return rewrite_everywhere(graph, context, [](Editor& e, uint32_t id) {
    const auto w = with_constant(e, {id, 0});
    if (!w) return false;
    if (drop_neutral(e, id, *w)) return true;
    const std::string& op = e.node(id).op->name;
    if (op == "div") return multiply_instead(e, id, *w);
    if (op == "pow") return reduce_power(e, id, *w);
    return merge(e, id, *w);
  });
}

}  // namespace isomer::passes
