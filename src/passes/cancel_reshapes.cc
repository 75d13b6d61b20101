// Nodes that only look at a value in another shape merge and cancel, and nodes that give their input back go. A change
// of shape also moves below element-wise nodes and products of rows where it then meets another one.
#include <algorithm>

#include "passes/editor.h"
#include "passes/elementwise.h"

namespace isomer::passes {
namespace {

constexpr size_t kMaxReshapeDepth = 8;  // nodes between two changes of shape

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
  const ir::Attrs attrs = n.attrs;
  const std::vector<Value> inputs = n.inputs;
  if (n.op->name == "matmul") return e.add("matmul", {rows, inputs[1]}, attrs);
  const int64_t* turned = attrs.get<int64_t>("transB");
  const Value right = turned && *turned != 0 ? e.add("transpose", {inputs[1]}) : inputs[1];
  const Value product = e.add("matmul", {rows, right});
  return inputs.size() > 2 && !inputs[2].is_none() ? e.add("add", {product, inputs[2]}) : product;
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
