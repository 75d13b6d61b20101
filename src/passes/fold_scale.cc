// Products and sums with constants vanish in the weights and biases of the linear operator before them, or of all the
// linear operators after them. Padding is the trap of the second kind: a padded convolution sees zeros at its border, not
// shifted zeros, so a shift stays in front of it while a scale may pass.
#include <cmath>

#include "passes/channel.h"
#include "passes/editor.h"
#include "passes/linear.h"

namespace isomer::passes {
namespace {

std::string name_for(const Editor& e, Value old) {
  const std::string& name = e.node(old.node).names[old.index];
  return e.uses(old) <= 1 ? name : name + ".scaled";
}

// Bias terms as a constant of the bias's element type; none when one is not finite.
Value bias_constant(Editor& e, DType dtype, const std::vector<double>& values, Value old) {
  Tensor t = Tensor::of(dtype, {static_cast<int64_t>(values.size())}, values);
  for (int64_t i = 0; i < t.size(); ++i)
    if (!std::isfinite(t.real(i))) return Value::none();
  return e.constant(std::move(t), old.is_none() ? std::string() : name_for(e, old));
}

// Weights that somebody else reads too are copied by a fold, which must not cost much memory.
bool may_copy(const Editor& e, Value w, const PassContext& context) {
  return e.uses(w) == 1 || static_cast<int64_t>(e.constant(w)->byte_size()) <= context.limits.node_growth;
}

struct Folded {
  Value weight, bias;
};

// What goes with the new weights: the bias, when it is needed.
bool attach_bias(Editor& e, const Linear& l, const std::vector<double>& values, bool needed, Folded& out) {
  out.bias = Value::none();
  if (!needed && l.bias.is_none()) return true;
  out.bias = bias_constant(e, e.type(l.weight).dtype, values, l.bias);
  return !out.bias.is_none();
}

// affine(linear(x)) -> linear'(x)
bool fold_into_producer(Editor& e, uint32_t id, const Affine& given, const PassContext& context) {
  const auto l = linear(e, given.x.node);
  if (!l || e.uses(given.x) != 1 || given.x.index != 0 || !may_copy(e, l->weight, context)) return false;
  if (given.axis && *given.axis != l->out_axis) return false;
  const Affine a = given.spread(l->outputs);
  if (!a.finite() || a.scale.size() != l->outputs) return false;
  if (!l->takes_bias && !a.scales()) return false;
  Folded f;
  f.weight = l->weight;
  if (a.scales()) {
    auto w = l->scale_outputs(*e.constant(l->weight), a.scale);
    if (!w) return false;
    f.weight = e.constant(*std::move(w), name_for(e, l->weight));
  }
  std::vector<double> bias = l->bias_values;
  for (size_t c = 0; c < bias.size(); ++c) bias[c] = bias[c] * a.scale[c] + a.shift[c];
  if (l->takes_bias && !attach_bias(e, *l, bias, a.shifts(), f)) return false;
  Value y = l->with(e, l->x, f.weight, f.bias);
  if (!l->takes_bias && a.shifts()) {
    const Value shift = bias_constant(e, e.type(l->weight).dtype, a.shift, Value::none());
    y = shift.is_none() ? shift : e.add("add", {y, shift});
  }
  return e.replace({id, 0}, y);
}

// Whether a user of the affine value can take it into its weights.
bool can_take(const Editor& e, uint32_t user, Value value, const Affine& a, const PassContext& context) {
  const auto l = linear(e, user);
  if (!l || l->x != value || !may_copy(e, l->weight, context)) return false;
  size_t reads = 0;
  for (const Value& v : e.node(user).inputs) reads += v == value;
  if (reads != 1 || (a.axis && (!l->in_axis || *a.axis != *l->in_axis))) return false;
  if (a.axis && a.scale.size() != l->inputs) return false;
  return !a.shifts() || (l->takes_bias && !l->padded && l->in_axis);
}

bool take(Editor& e, uint32_t user, const Affine& given) {
  const auto l = linear(e, user);
  const Affine a = given.spread(l->inputs);
  Folded f;
  f.weight = l->weight;
  const Tensor& w = *e.constant(l->weight);
  std::vector<double> bias = l->bias_values;
  if (a.shifts()) {
    const std::vector<double> sums = l->response(w, a.shift);
    for (size_t o = 0; o < bias.size(); ++o) bias[o] += sums[o];
  }
  if (a.scales()) {
    auto scaled_weight = l->scale_inputs(w, a.scale);
    if (!scaled_weight) return false;
    f.weight = e.constant(*std::move(scaled_weight), name_for(e, l->weight));
  }
  if (l->takes_bias && !attach_bias(e, *l, bias, a.shifts(), f)) return false;
  return e.replace({user, 0}, l->with(e, a.x, f.weight, f.bias));
}

// linear(affine(x)) -> linear'(x), for every reader of the affine value.
bool fold_into_consumers(Editor& e, uint32_t id, const Affine& a, const PassContext& context) {
  const Value value{id, 0};
  const std::vector<uint32_t> users = e.users(id);
  if (users.empty() || e.is_output(value) || !a.finite()) return false;
  for (uint32_t user : users)
    if (!can_take(e, user, value, a, context)) return false;
  bool any = false;
  for (uint32_t user : users) any |= take(e, user, a);
  return any;
}

}  // namespace

Expected<ir::Graph> fold_scale(const ir::Graph& graph, PassContext& context) {
  return rewrite_everywhere(graph, context, [&context](Editor& e, uint32_t id) {
    if (e.node(id).types.size() != 1) return false;
    const auto a = affine(e, id);
    if (!a || (!a->scales() && !a->shifts())) return false;
    return fold_into_producer(e, id, *a, context) || fold_into_consumers(e, id, *a, context);
  });
}

}  // namespace isomer::passes
