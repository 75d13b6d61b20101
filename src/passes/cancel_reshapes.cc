// Nodes that only look at a value in another shape merge and cancel, and nodes that give their input back go. A change
// of shape also moves below element-wise nodes and products of rows where it then meets another one.
#include <algorithm>

#include "passes/editor.h"
#include "passes/elementwise.h"
#include "passes/views.h"

namespace isomer::passes {
namespace {

constexpr size_t kMaxReshapeDepth = 8;  // nodes between two changes of shape

bool merge_views(Editor& e, uint32_t id) {
  const Value x = e.node(id).inputs[0];
  const ir::Node* inner = view(e, x);
  return inner && e.replace({id, 0}, reshaped(e, inner->inputs[0], e.shape({id, 0})));
}

// A node between two views, and the operand of it that is followed.
struct Link {
  uint32_t node;
  size_t operand;
  bool by_rows;  // it sees the last axis as it is; what is before that may have any shape
};

// Broadcasts along the last axis alone.
bool is_row(const Shape& s) {
  return s.has_rank() && s.rank() > 0 &&
         std::all_of(s.dims().begin(), s.dims().end() - 1, [](const Dim& d) { return d == Dim(1); });
}

bool is_number(const Shape& s) { return s.has_rank() && s.rank() == 0; }

// An element-wise node with one operand of its own shape; all others are constant numbers or rows.
std::optional<Link> elementwise_link(const Editor& e, Value y) {
  const ir::Node& f = e.node(y.node);
  std::optional<size_t> at;
  bool rows = false;
  for (size_t i = 0; i < f.inputs.size(); ++i) {
    const Value v = f.inputs[i];
    if (v.is_none() || (e.constant(v) && is_number(e.shape(v)))) continue;
    if (e.constant(v) && is_row(e.shape(v)))
      rows = true;
    else if (std::exchange(at, i))
      return std::nullopt;
  }
  if (!at || !(e.shape(y) == e.shape(f.inputs[*at])) || !is_elementwise(e, y.node)) return std::nullopt;
  return Link{y.node, *at, rows};
}

// A product of rows by a matrix.
std::optional<Link> product_link(const Editor& e, Value y) {
  const ir::Node& n = e.node(y.node);
  const bool gemm = n.op->name == "gemm";
  if (!gemm && n.op->name != "matmul") return std::nullopt;
  const Shape &left = e.shape(n.inputs[0]), &right = e.shape(n.inputs[1]);
  if (!left.has_rank() || left.rank() < 2 || !right.has_rank() || right.rank() != 2) return std::nullopt;
  if (!gemm) return Link{y.node, 0, true};
  const ir::OpContext c = e.context(y.node);
  if (c.flag("transA") || c.real("alpha") != 1 || (c.flag("transB") && !e.constant(n.inputs[1]))) return std::nullopt;
  if (!c.has(2)) return Link{y.node, 0, true};
  // Halves are summed as floats: apart, the product would be rounded before the sum.
  const bool rounds = c.dtype(0) == DType::F16 || c.dtype(0) == DType::BF16;
  const bool row = is_number(c.shape(2)) || is_row(c.shape(2));
  return c.real("beta") == 1 && !rounds && row ? std::optional(Link{y.node, 0, true}) : std::nullopt;
}

std::optional<Link> link(const Editor& e, Value y) {
  if (y.index != 0 || e.uses(y) != 1 || e.node(y.node).types.size() != 1) return std::nullopt;
  const auto product = product_link(e, y);
  return product ? product : elementwise_link(e, y);
}

Value product_elsewhere(Editor& e, const ir::Node& n, Value rows) {
  if (n.op->name == "matmul") return e.add("matmul", {rows, n.inputs[1]}, n.attrs);
  const int64_t* turned = n.attrs.get<int64_t>("transB");
  const Value right = turned && *turned != 0 ? e.add("transpose", {n.inputs[1]}) : n.inputs[1];
  const Value product = right.is_none() ? right : e.add("matmul", {rows, right});
  const bool sum = n.inputs.size() > 2 && !n.inputs[2].is_none();
  return sum && !product.is_none() ? e.add("add", {product, n.inputs[2]}) : product;
}

// The shape before the chain that gives `after` behind it, where each row goes its own way: nothing where rows are not kept.
std::optional<Shape> shape_of_rows(const Shape& before, const Shape& result, const Shape& after) {
  for (const Shape* s : {&before, &result, &after})
    if (!s->has_rank() || s->rank() < 1 || s->dims().back() == Dim(0)) return std::nullopt;
  if (after.rank() < 2 || !(result.dims().back() == after.dims().back())) return std::nullopt;
  std::vector<Dim> dims = after.dims();
  dims.back() = before.dims().back();
  return Shape(dims);
}

// view(f(view(x))) -> view(f(x)) for a chain f of element-wise nodes; and where they and products take one row at a time,
// f(view(x)) with rows as the last view wants them: so what stands behind a product that was written for a matrix meets it.
bool move_below(Editor& e, uint32_t id) {
  std::vector<Link> chain;
  bool by_rows = false;
  Value y = e.node(id).inputs[0];
  while (!view(e, y)) {
    const auto next = chain.size() < kMaxReshapeDepth ? link(e, y) : std::nullopt;
    if (!next) return false;
    by_rows |= next->by_rows;
    chain.push_back(*next);
    y = e.node(y.node).inputs[next->operand];
  }
  if (chain.empty() || (!by_rows && e.uses(y) != 1)) return false;
  Value made = e.node(y.node).inputs[0];
  if (by_rows) {
    const auto rows = shape_of_rows(e.shape(y), e.shape(e.node(id).inputs[0]), e.shape({id, 0}));
    if (!rows) return false;
    made = reshaped(e, made, *rows);
  }
  for (auto link = chain.rbegin(); link != chain.rend() && !made.is_none(); ++link) {
    const ir::Node& f = e.node(link->node);
    if (product_link(e, {link->node, 0})) {
      made = product_elsewhere(e, f, made);
      continue;
    }
    std::vector<Value> inputs = f.inputs;
    inputs[link->operand] = made;
    const Shape shape = e.shape(made);
    made = elsewhere(e, link->node, std::move(inputs));
    if (!made.is_none() && !(e.shape(made) == shape)) return false;
  }
  return !made.is_none() && e.replace({id, 0}, reshaped(e, made, e.shape({id, 0})));
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

// Whether v is a product that nobody else reads, or element-wise nodes behind one.
bool behind_product(const Editor& e, Value v) {
  for (size_t depth = 0; depth < kMaxReshapeDepth && v.index == 0 && e.uses(v) == 1; ++depth) {
    if (e.made_by(v, "matmul") || e.made_by(v, "gemm")) return true;
    const auto next = elementwise_link(e, v);
    if (!next) return false;
    v = e.node(v.node).inputs[next->operand];
  }
  return false;
}

std::vector<Dim> without_leading_ones(const std::vector<Dim>& dims) {
  return {std::find_if(dims.begin(), dims.end(), [](const Dim& d) { return !(d == Dim(1)); }), dims.end()};
}

// The extents of an operand that broadcasts to `seen`, such that it does the same to the value of shape `other` that is looked at. Axes
// that are one run of elements in both belong together, and of these it must have all or none.
std::optional<std::vector<Dim>> seen_otherwise(const Shape& operand, const Shape& seen, const Shape& other) {
  if (!operand.has_rank() || !other.has_rank() || operand.rank() > seen.rank()) return std::nullopt;
  const auto is_empty = [](const Shape& s) {
    return std::find(s.dims().begin(), s.dims().end(), Dim(0)) != s.dims().end();
  };
  if (is_empty(seen) || is_empty(other)) return std::nullopt;
  std::vector<Dim> own(seen.rank() - operand.rank(), Dim(1)), out;
  own.insert(own.end(), operand.dims().begin(), operand.dims().end());
  for (size_t i = 0, j = 0; i < seen.rank() || j < other.rank();) {
    const size_t first = i, begin = j;
    Dim here(1), there(1);
    do {
      const bool can = i < seen.rank(), could = j < other.rank();
      const bool fewer = here == Dim(1) || (here.is_const() && there.is_const() ? here.value() < there.value()
                                                                                : can && here * seen[i] == there);
      if (can && (fewer || !could))
        here = here * seen[i++];
      else if (could)
        there = there * other[j++];
      else
        return std::nullopt;
    } while (!(here == there));
    bool all = true, none = true;
    for (size_t k = first; k < i; ++k) all &= own[k] == seen[k], none &= own[k] == Dim(1);
    if (!all && !none) return std::nullopt;
    for (size_t k = begin; k < j; ++k) out.push_back(all ? other[k] : Dim(1));
  }
  return without_leading_ones(out);
}

// Such an operand; none where there is none, or where it is computed for this node alone, by element-wise nodes or a product that
// takes this node along, and would be stored to be looked at.
Value operand_elsewhere(Editor& e, Value v, const Shape& seen, const Shape& other) {
  if (v.is_none() || is_number(e.shape(v))) return v;
  const auto dims = seen_otherwise(e.shape(v), seen, other);
  if (!dims) return Value::none();
  const std::vector<Dim>& own = e.shape(v).dims();
  if (own.size() <= other.rank() && without_leading_ones(own) == *dims) return v;
  if (const Tensor* t = e.constant(v)) {
    std::vector<int64_t> numbers;
    for (const Dim& d : *dims) numbers.push_back(d.value());
    return e.constant(t->reshaped(numbers));
  }
  const bool stored = e.uses(v) > 1 || (!is_elementwise(e, v.node) && !behind_product(e, v));
  return stored ? reshaped(e, v, Shape(*dims)) : Value::none();
}

// f(view(y), others) -> view(f(y, others)) behind a product, which takes f along: Keras adds the biases of heads when they
// are apart.
bool hoist(Editor& e, uint32_t id) {
  const std::vector<Value> given = e.node(id).inputs;
  const Shape seen = e.shape({id, 0});
  const auto moves = [&](Value v) {
    const ir::Node* n = view(e, v);
    return n && e.uses(v) == 1 && e.shape(v).has_rank() && e.shape(v) == seen && behind_product(e, n->inputs[0]);
  };
  const auto at = std::find_if(given.begin(), given.end(), moves);
  if (at == given.end() || !is_elementwise(e, id)) return false;
  const Value y = e.node(at->node).inputs[0];
  std::vector<Value> inputs;
  for (const Value& v : given) {
    inputs.push_back(v == *at ? y : operand_elsewhere(e, v, seen, e.shape(y)));
    if (inputs.back().is_none() != v.is_none()) return false;
  }
  const Value f = elsewhere(e, id, std::move(inputs));
  return !f.is_none() && e.shape(f) == e.shape(y) && e.replace({id, 0}, reshaped(e, f, seen));
}

// matmul(view(a), view(b)) -> view(matmul(a, b)) where both views see the same leading axes as others.
bool sink_below_matmul(Editor& e, uint32_t id) {
  const ir::Node& n = e.node(id);
  const ir::Node *left = view(e, n.inputs[0]), *right = view(e, n.inputs[1]);
  if (!left || !right) return false;
  const Value a = left->inputs[0], b = right->inputs[0];
  const auto fits = [&](Value inner, Value seen) {
    const Shape &x = e.shape(inner), &y = e.shape(seen);
    return same_last_axes(x, y, 2) && !(x.dims().back() == Dim(0)) && !(x[x.rank() - 2] == Dim(0));
  };
  const auto leading = [](const Shape& s) { return std::vector<Dim>(s.dims().begin(), s.dims().end() - 2); };
  if (!fits(a, n.inputs[0]) || !fits(b, n.inputs[1]) || leading(e.shape(a)) != leading(e.shape(b)) ||
      leading(e.shape(n.inputs[0])) != leading(e.shape(n.inputs[1])))
    return false;
  const Value product = e.add("matmul", {a, b}, n.attrs);
  return !product.is_none() && e.replace({id, 0}, reshaped(e, product, e.shape({id, 0})));
}

// softmax(view(x)) -> view(softmax(x)) along a last axis that the view keeps.
bool sink_below_softmax(Editor& e, uint32_t id) {
  const Value seen = e.node(id).inputs[0];
  const ir::Node* n = view(e, seen);
  const int64_t axis = e.context(id).integer("axis");
  if (!n || !same_last_axes(e.shape(n->inputs[0]), e.shape(seen), 1) || e.shape(seen).dims().back() == Dim(0))
    return false;
  if (axis != -1 && axis != static_cast<int64_t>(e.shape(seen).rank()) - 1) return false;
  const Value x = e.add("softmax", {n->inputs[0]}, {{"axis", int64_t{-1}}});
  return !x.is_none() && e.replace({id, 0}, reshaped(e, x, e.shape({id, 0})));
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
    const std::string& op = e.node(id).op->name;
    if (is_view(op)) return merge_views(e, id) || move_below(e, id);
    if (op == "matmul") return sink_below_matmul(e, id);
    if (op == "softmax") return sink_below_softmax(e, id);
    return (e.node(id).inputs.size() > 1 && sink_views(e, id)) || hoist(e, id);
  });
}

}  // namespace isomer::passes
