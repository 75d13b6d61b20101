// Nodes that only look at a value in another shape merge and cancel, and nodes that give their input back go. A change
// of shape also moves below an element-wise node where it then meets another one.
#include <algorithm>

#include "passes/editor.h"
#include "passes/elementwise.h"

namespace isomer::passes {
namespace {

constexpr size_t kMaxReshapeDepth = 8;  // element-wise nodes between two changes of shape

bool is_view(const std::string& op) {
  return op == "reshape" || op == "flatten" || op == "squeeze" || op == "unsqueeze";
}

const ir::Node* view(const Editor& e, Value v) {
  return !v.is_none() && v.index == 0 && is_view(e.node(v.node).op->name) ? &e.node(v.node) : nullptr;
}

// The operand of a reshape of `from` that gives `to`; none when it cannot be written with numbers.
std::optional<std::vector<int64_t>> shape_operand(const Shape& from, const Shape& to) {
  if (!to.has_rank()) return std::nullopt;
  std::vector<int64_t> dims;
  bool open = false;
  for (size_t i = 0; i < to.rank(); ++i) {
    // Zero means "copy", and beside an empty axis -1 has no meaning.
    if (to[i] == Dim(0)) return std::nullopt;
    if (to[i].is_const())
      dims.push_back(to[i].value());
    else if (from.has_rank() && i < from.rank() && from[i] == to[i])
      dims.push_back(0);
    else if (!std::exchange(open, true))
      dims.push_back(-1);
    else
      return std::nullopt;
  }
  return dims;
}

// x at another shape: x itself where it has that shape already.
Value reshaped(Editor& e, Value x, const Shape& to) {
  if (e.shape(x).has_rank() && e.shape(x) == to) return x;
  const auto dims = shape_operand(e.shape(x), to);
  return dims ? e.add("reshape", {x, e.constant(Tensor::ints(*dims))}) : Value::none();
}

bool merge_views(Editor& e, uint32_t id) {
  const Value x = e.node(id).inputs[0];
  const ir::Node* inner = view(e, x);
  return inner && e.replace({id, 0}, reshaped(e, inner->inputs[0], e.shape({id, 0})));
}

// The one input of an element-wise node that nobody else reads, when all others are single numbers; and the node's
// result has that input's shape.
std::optional<size_t> only_operand(const Editor& e, Value y) {
  if (y.index != 0 || e.uses(y) != 1 || e.node(y.node).types.size() != 1) return std::nullopt;
  const ir::Node& f = e.node(y.node);
  std::optional<size_t> at;
  for (size_t i = 0; i < f.inputs.size(); ++i) {
    const Value v = f.inputs[i];
    if (v.is_none() || (e.constant(v) && e.shape(v).has_rank() && e.shape(v).rank() == 0)) continue;
    if (std::exchange(at, i)) return std::nullopt;
  }
  if (!at || !(e.shape(y) == e.shape(f.inputs[*at])) || !is_elementwise(e, y.node)) return std::nullopt;
  return at;
}

// view(f(view(x))) -> view(f(x)) for a chain of element-wise nodes f.
bool move_below(Editor& e, uint32_t id) {
  struct Link {
    uint32_t node;
    size_t at;
  };
  std::vector<Link> chain;
  Value y = e.node(id).inputs[0];
  while (!view(e, y)) {
    const auto at = chain.size() < kMaxReshapeDepth ? only_operand(e, y) : std::nullopt;
    if (!at) return false;
    chain.push_back({y.node, *at});
    y = e.node(y.node).inputs[*at];
  }
  if (chain.empty() || e.uses(y) != 1) return false;
  Value made = e.node(y.node).inputs[0];
  for (auto link = chain.rbegin(); link != chain.rend(); ++link) {
    const ir::Node& f = e.node(link->node);
    std::vector<Value> inputs = f.inputs;
    inputs[link->at] = made;
    const Shape shape = e.shape(made);
    made = elsewhere(e, link->node, std::move(inputs));
    if (made.is_none() || !(e.shape(made) == shape)) return false;
  }
  return e.replace({id, 0}, reshaped(e, made, e.shape({id, 0})));
}

// f(view(a), view(b)) -> view(f(a, b)) where a and b have one shape.
bool sink_views(Editor& e, uint32_t id) {
  const ir::Node& f = e.node(id);
  std::vector<Value> inputs;
  for (const Value& v : f.inputs) {
    const ir::Node* n = view(e, v);
    if (!n || e.uses(v) != 1 || !(e.shape(v) == e.shape({id, 0}))) return false;
    inputs.push_back(n->inputs[0]);
    if (!e.shape(inputs[0]).has_rank() || !(e.shape(inputs[0]) == e.shape(inputs.back()))) return false;
  }
  if (!is_elementwise(e, id)) return false;
  const Shape shape = e.shape(inputs[0]);
  const Value g = elsewhere(e, id, std::move(inputs));
  return !g.is_none() && e.shape(g) == shape && e.replace({id, 0}, reshaped(e, g, e.shape({id, 0})));
}

bool all_are(const Editor& e, Value v, int64_t number) {
  if (v.is_none()) return true;
  const Tensor* t = e.constant(v);
  if (!t) return false;
  for (int64_t i = 0; i < t->size(); ++i)
    if (t->integer(i) != number) return false;
  return true;
}

// Nodes that would copy their first input as it is.
bool gives_back(const Editor& e, uint32_t id) {
  const ir::Node& n = e.node(id);
  const std::string& op = n.op->name;
  if (n.inputs.empty() || n.inputs[0].is_none() || n.types.size() != 1) return false;
  if (n.inputs.size() == 1 &&
      (op == "concat" || op == "max" || op == "min" || op == "sum" || op == "mean" || op == "split"))
    return true;
  if (!e.shape(n.inputs[0]).has_rank() || !(e.type(n.inputs[0]) == n.types[0])) return false;
  const auto operand = [&](size_t i) { return i < n.inputs.size() ? n.inputs[i] : Value::none(); };
  if (op == "expand" || op == "tile" || op == "split" || is_view(op)) return true;
  if (op == "slice") return all_are(e, operand(4), 1);
  return op == "pad" && all_are(e, operand(1), 0);
}

}  // namespace

Expected<ir::Graph> cancel_reshapes(const ir::Graph& graph, PassContext& context) {
  return rewrite_everywhere(graph, context, [](Editor& e, uint32_t id) {
    if (gives_back(e, id)) return e.replace({id, 0}, e.node(id).inputs[0]);
    if (is_view(e.node(id).op->name)) return merge_views(e, id) || move_below(e, id);
    return e.node(id).inputs.size() > 1 && sink_views(e, id);
  });
}

}  // namespace isomer::passes
