#include "passes/normal_form.h"

#include <algorithm>

#include "passes/numbers.h"

namespace isomer::passes {
namespace {

// The first of the reduced axes, when they are all from there on and stay as extents of 1.
std::optional<size_t> reduced_from(const Editor& e, const ir::Node& n) {
  const Shape& shape = e.shape(n.inputs[0]);
  const int64_t* keep = n.attrs.get<int64_t>("keepdims");
  if (!shape.has_rank() || (keep && *keep == 0) || n.inputs.size() != 2) return std::nullopt;
  const Tensor* axes = e.constant(n.inputs[1]);
  if (!axes || axes->size() == 0) return std::nullopt;
  const auto rank = static_cast<int64_t>(shape.rank());
  std::vector<int64_t> sorted = axes->to_ints();
  for (int64_t& a : sorted) a += a < 0 ? rank : 0;
  std::sort(sorted.begin(), sorted.end());
  for (size_t i = 0; i < sorted.size(); ++i)
    if (sorted[i] != rank - static_cast<int64_t>(sorted.size() - i)) return std::nullopt;
  return static_cast<size_t>(sorted[0]);
}

// x when v is x * x.
Value root_of_square(const Editor& e, Value v) {
  if (const ir::Node* n = e.made_by(v, "mul"); n && n->inputs[0] == n->inputs[1]) return n->inputs[0];
  const ir::Node* n = e.made_by(v, "pow");
  if (!n || !e.shape(n->inputs[0]).has_rank()) return Value::none();
  const Tensor* exponent = e.constant(n->inputs[1]);  // of any type: exporters write an integer 2 too
  const bool two =
      exponent && exponent->size() == 1 && exponent->real(0) == 2 && exponent->rank() <= e.shape(n->inputs[0]).rank();
  return two ? n->inputs[0] : Value::none();
}

// What v is the square root of, or with `inverse` the reciprocal of one.
Value under_root(const Editor& e, Value v, bool inverse) {
  if (const ir::Node* n = e.made_by(v, "sqrt"); n && !inverse) return n->inputs[0];
  if (const ir::Node* n = e.made_by(v, "pow")) {
    const auto exponent = number(e, n->inputs[1], 1);
    return exponent && *exponent == (inverse ? -0.5 : 0.5) ? n->inputs[0] : Value::none();
  }
  if (!inverse) return Value::none();
  if (const ir::Node* n = e.made_by(v, "reciprocal")) return under_root(e, n->inputs[0], false);
  const ir::Node* n = e.made_by(v, "div");
  if (!n) return Value::none();
  const auto one = number(e, n->inputs[0], 1);
  return one && *one == 1 ? under_root(e, n->inputs[1], false) : Value::none();
}

// mean(x^2) + epsilon, for the x that is divided by its root.
std::optional<Normal> spread(const Editor& e, Value x, Value under) {
  const auto sum = under.is_none() ? std::nullopt : beside_number(e, under, "add");
  const ir::Node* mean = sum ? e.made_by(sum->other, "reduce_mean") : nullptr;
  if (!mean || root_of_square(e, mean->inputs[0]) != x) return std::nullopt;
  const auto axis = reduced_from(e, *mean);
  return axis ? std::optional(Normal{x, *axis, sum->number}) : std::nullopt;
}

// The operand beside the result of `op`, which only this node reads, and that node.
struct BesideResult {
  uint32_t norm;
  Value other;
};
std::optional<BesideResult> beside(const Editor& e, uint32_t id, std::string_view outer, std::string_view op) {
  const ir::Node& n = e.node(id);
  if (n.op->name != outer) return std::nullopt;
  for (size_t i : {0, 1}) {
    const ir::Node* norm = e.made_by(n.inputs[i], op);
    if (norm && norm->types.size() == 1 && e.uses(n.inputs[i]) == 1 && e.type(n.inputs[i]) == n.types[0])
      return BesideResult{n.inputs[i].node, n.inputs[1 - i]};
  }
  return std::nullopt;
}

// A constant as one of exactly the normalised axes; none when it varies along others, or is no constant.
Value over_normalised_axes(Editor& e, Value v, const ir::Node& norm) {
  const Tensor* t = e.constant(v);
  const Shape& x = e.shape(norm.inputs[0]);
  const int64_t* given = norm.attrs.get<int64_t>("axis");
  int64_t axis = given ? *given : -1;
  if (axis < 0) axis += static_cast<int64_t>(x.rank());
  if (!t || t->dtype() != e.type(norm.inputs[0]).dtype) return Value::none();
  std::vector<int64_t> wanted;
  for (size_t i = static_cast<size_t>(axis); i < x.rank(); ++i) wanted.push_back(x[i].constant().value_or(-1));
  std::vector<int64_t> dims = t->dims();
  while (dims.size() > wanted.size() && dims.front() == 1) dims.erase(dims.begin());
  if (dims != wanted) return Value::none();
  return t->dims() == wanted ? v : e.constant(t->reshaped(wanted), e.node(v.node).names[0]);
}

bool all_ones(const Tensor* t) {
  for (int64_t i = 0; t && i < t->size(); ++i)
    if (t->real(i) != 1) return false;
  return t != nullptr;
}

}  // namespace

std::optional<Normal> normal(const Editor& e, uint32_t id) {
  const ir::Node& n = e.node(id);
  if (n.op->name == "div") {
    if (!(e.type(n.inputs[0]) == n.types[0])) return std::nullopt;
    return spread(e, n.inputs[0], under_root(e, n.inputs[1], false));
  }
  if (n.op->name != "mul") return std::nullopt;
  for (size_t i : {0, 1}) {
    if (!(e.type(n.inputs[i]) == n.types[0])) continue;
    if (const auto found = spread(e, n.inputs[i], under_root(e, n.inputs[1 - i], true))) return found;
  }
  return std::nullopt;
}

Value mean_of(const Editor& e, Value v, size_t axis) {
  const ir::Node* n = e.made_by(v, "reduce_mean");
  return n && reduced_from(e, *n) == axis ? n->inputs[0] : Value::none();
}

Value ones(Editor& e, Value x, size_t axis) {
  std::vector<int64_t> dims;
  int64_t count = 1;
  for (size_t i = axis; i < e.shape(x).rank(); ++i) {
    dims.push_back(e.shape(x)[i].constant().value_or(0));
    if (dims.back() <= 0) return Value::none();
    count *= dims.back();
  }
  return e.constant(Tensor::of(e.type(x).dtype, dims, std::vector<double>(static_cast<size_t>(count), 1)));
}

bool take_scale(Editor& e, uint32_t id, std::string_view op) {
  const auto found = beside(e, id, "mul", op);
  if (!found) return false;
  const ir::Node& norm = e.node(found->norm);
  if (norm.inputs.size() != 2 || !all_ones(e.constant(norm.inputs[1]))) return false;
  const Value scale = over_normalised_axes(e, found->other, norm);
  return !scale.is_none() && e.replace({id, 0}, e.add(op, {norm.inputs[0], scale}, norm.attrs));
}

bool take_bias(Editor& e, uint32_t id, std::string_view op) {
  const auto found = beside(e, id, "add", op);
  if (!found) return false;
  const ir::Node& norm = e.node(found->norm);
  if (norm.inputs.size() != 2) return false;
  const Value bias = over_normalised_axes(e, found->other, norm);
  return !bias.is_none() && e.replace({id, 0}, e.add(op, {norm.inputs[0], norm.inputs[1], bias}, norm.attrs));
}

}  // namespace isomer::passes
