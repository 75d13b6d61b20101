// softmax(q k' * s + mask) v on [batch, heads, tokens, size], where k' is a transpose that attention does itself.
#include "passes/editor.h"
#include "passes/numbers.h"

namespace isomer::passes {
namespace {

using Ints = std::vector<int64_t>;

// The keys whose last two axes are swapped in v: v's own transpose with the two swapped again.
Value keys(Editor& e, Value v) {
  const ir::Node* n = e.made_by(v, "transpose");
  const Ints* perm = n ? n->attrs.get<Ints>("perm") : nullptr;
  if (!perm || perm->size() != 4) return Value::none();
  Ints order = *perm;
  std::swap(order[2], order[3]);
  if (order == Ints{0, 1, 2, 3}) return n->inputs[0];
  return e.add("transpose", {n->inputs[0]}, {{"perm", order}});
}

struct Scores {
  Value product;  // matmul(q, k')
  Value mask;     // added, or none
  double scale = 1;
};

std::optional<Scores> scores(const Editor& e, Value v) {
  Scores s{v, Value::none(), 1};
  if (const ir::Node* sum = e.made_by(v, "add")) {
    if (e.uses(v) != 1) return std::nullopt;
    for (size_t i : {0, 1}) {
      const Value other = sum->inputs[i];
      const bool scored = e.made_by(other, "matmul") || product(e, other).has_value();
      if (!scored || !(e.type(other) == e.type(v)) || e.constant(other)) continue;
      s.product = other;
      s.mask = sum->inputs[1 - i];
      break;
    }
    if (s.mask.is_none()) return std::nullopt;
  }
  if (e.uses(s.product) != 1) return std::nullopt;
  if (const auto p = product(e, s.product)) {
    if (p->factors.size() != 1) return std::nullopt;
    s.product = p->factors[0];
    s.scale = p->constant;
  }
  return e.made_by(s.product, "matmul") && e.uses(s.product) == 1 ? std::optional(s) : std::nullopt;
}

bool same_heads(const Editor& e, Value a, Value b) {
  const Shape &x = e.shape(a), &y = e.shape(b);
  return x.has_rank() && y.has_rank() && x.rank() == 4 && y.rank() == 4 && x[0] == y[0] && x[1] == y[1] &&
         x[1].is_const();
}

bool recognise_attention_at(Editor& e, uint32_t id) {
  const ir::Node& n = e.node(id);
  const Value shares = n.inputs[0], v = n.inputs[1];
  const ir::Node* softmax = e.made_by(shares, "softmax");
  if (!softmax || e.uses(shares) != 1 || !e.shape(shares).has_rank() || e.shape(shares).rank() != 4) return false;
  const int64_t* axis = softmax->attrs.get<int64_t>("axis");
  if (axis && *axis != -1 && *axis != 3) return false;
  const auto s = scores(e, softmax->inputs[0]);
  if (!s) return false;
  const Value q = e.node(s->product.node).inputs[0];
  const Value k = keys(e, e.node(s->product.node).inputs[1]);
  if (k.is_none() || !same_heads(e, q, k) || !same_heads(e, q, v)) return false;
  const Value y = e.add("attention", {q, k, v, s->mask}, {{"scale", s->scale}});
  return e.replace({id, 0}, y);
}

}  // namespace

Expected<ir::Graph> recognise_attention(const ir::Graph& graph, PassContext& context) {
  return rewrite_everywhere(graph, context, [](Editor& e, uint32_t id) {
    return e.node(id).op->name == "matmul" && recognise_attention_at(e, id);
  });
}

}  // namespace isomer::passes
