// Transposes merge, cancel, and move through element-wise nodes, changes of shape and products where that makes them fewer.
#include <algorithm>
#include <numeric>

#include "passes/editor.h"
#include "passes/elementwise.h"
#include "passes/fold.h"
#include "passes/views.h"

namespace isomer::passes {
namespace {

using Order = std::vector<size_t>;  // axis k of the result is axis order[k] of the operand

constexpr int kMaxTransposeDepth = 8;            // element-wise nodes between two transposes
constexpr int64_t kMaxMoved = int64_t{1} << 16;  // bytes of a constant that is transposed on the way

// The order of a transpose node; nothing for another node.
std::optional<Order> order_of(const Editor& e, Value v) {
  const ir::Node* n = e.made_by(v, "transpose");
  if (!n || !e.shape(n->inputs[0]).has_rank()) return std::nullopt;
  const auto rank = static_cast<int64_t>(e.shape(n->inputs[0]).rank());
  Order order(static_cast<size_t>(rank));
  const auto* perm = n->attrs.get<std::vector<int64_t>>("perm");
  if (!perm) {
    std::iota(order.rbegin(), order.rend(), size_t{0});
    return order;
  }
  for (size_t k = 0; k < order.size(); ++k)
    order[k] = static_cast<size_t>((*perm)[k] < 0 ? (*perm)[k] + rank : (*perm)[k]);
  return order;
}

bool is_identity(const Order& order) {
  for (size_t k = 0; k < order.size(); ++k)
    if (order[k] != k) return false;
  return true;
}

// transpose(transpose(x, first), second)
Order after(const Order& first, const Order& second) {
  Order out;
  for (size_t k : second) out.push_back(first[k]);
  return out;
}

Order inverse(const Order& order) {
  Order out(order.size());
  for (size_t k = 0; k < order.size(); ++k) out[order[k]] = k;
  return out;
}

ir::Attrs perm_attr(const Order& order) { return {{"perm", std::vector<int64_t>(order.begin(), order.end())}}; }

// A constant of `rank` axes at most, seen with exactly that many and transposed; none when it is too large to copy.
Value moved_constant(Editor& e, Value v, const Order& order) {
  const Tensor* t = e.constant(v);
  if (is_scalar_like(e, v) && e.shape(v).rank() <= order.size()) return v;
  if (!t || t->rank() > order.size() || static_cast<int64_t>(t->byte_size()) > kMaxMoved) return Value::none();
  std::vector<int64_t> dims(order.size() - t->rank(), 1);
  dims.insert(dims.end(), t->dims().begin(), t->dims().end());
  return folded(e, "transpose", {e.constant(t->reshaped(dims))}, perm_attr(order));
}

// The axis that a concat joins along, counted from the front.
size_t joined_axis(const ir::Node& n) {
  const int64_t axis = *n.attrs.get<int64_t>("axis");
  return static_cast<size_t>(axis < 0 ? axis + static_cast<int64_t>(n.types[0].shape.rank()) : axis);
}

// The node on inputs that are transposed by `order`: element-wise, or a concat along the axis that became of its own.
Value turned(Editor& e, uint32_t id, std::vector<Value> inputs, const Order& order) {
  const ir::Node& n = e.node(id);
  if (n.op->name != "concat") return elsewhere(e, id, std::move(inputs));
  return e.add("concat", std::move(inputs), {{"axis", static_cast<int64_t>(inverse(order)[joined_axis(n)])}});
}

bool can_turn(const Editor& e, uint32_t id) { return e.node(id).op->name == "concat" || is_elementwise(e, id); }

// transpose(v, order) without a transpose, by undoing one on every way up; none when that cannot be. With `build` off
// nothing is made, and v itself says yes.
Value undone(Editor& e, Value v, const Order& order, int depth, bool build) {
  if (const auto first = order_of(e, v))
    return is_identity(after(*first, order)) ? e.node(v.node).inputs[0] : Value::none();
  if (is_scalar_like(e, v) && e.shape(v).rank() == 0) return v;
  if (e.constant(v)) {
    const Tensor& t = *e.constant(v);
    if (build) return moved_constant(e, v, order);
    return t.rank() <= order.size() && static_cast<int64_t>(t.byte_size()) <= kMaxMoved ? v : Value::none();
  }
  const Shape& shape = e.shape(v);
  if (depth == 0 || v.index != 0 || e.uses(v) != 1 || !shape.has_rank() || shape.rank() != order.size() ||
      !can_turn(e, v.node))
    return Value::none();
  std::vector<Value> inputs;
  for (const Value& in : std::vector<Value>(e.node(v.node).inputs)) {
    const Value u = in.is_none() ? in : undone(e, in, order, depth - 1, build);
    if (u.is_none() != in.is_none()) return Value::none();
    inputs.push_back(u);
  }
  if (!build) return v;
  return turned(e, v.node, std::move(inputs), order);
}

// A transpose that moves nothing but axes of extent 1 is a reshape.
bool to_reshape(Editor& e, uint32_t id, const Order& order) {
  const Shape& from = e.shape(e.node(id).inputs[0]);
  size_t last = 0;
  for (size_t k : order) {
    if (from[k] == Dim(1)) continue;
    if (k < last) return false;
    last = k;
  }
  return e.replace({id, 0}, reshaped(e, e.node(id).inputs[0], e.shape({id, 0})));
}

// transpose(view(x)) without axes of extent 1 that the view has: exporters of einsum put them between the others. The first axis, the
// batch, may stay.
bool without_unit_axes(Editor& e, uint32_t id, const Order& order) {
  const Value seen = e.node(id).inputs[0];
  const ir::Node* n = view(e, seen);
  if (!n) return false;
  const Shape from = e.shape(seen);
  std::vector<Dim> kept;
  std::vector<size_t> number(from.rank(), SIZE_MAX);  // among those that are kept
  for (size_t k = 0; k < from.rank(); ++k) {
    if (from[k] == Dim(1) && !(k == 0 && order[0] == 0)) continue;
    number[k] = kept.size();
    kept.push_back(from[k]);
  }
  if (kept.size() == from.rank()) return false;
  Order others;
  for (const size_t k : order)
    if (number[k] != SIZE_MAX) others.push_back(number[k]);
  const Value x = reshaped(e, n->inputs[0], Shape(kept));
  const Value y = x.is_none() ? x : e.add("transpose", {x}, perm_attr(others));
  return !y.is_none() && e.replace({id, 0}, reshaped(e, y, e.shape({id, 0})));
}

// Only the last two axes change places.
bool turns_matrices(const Order& order) {
  const size_t rank = order.size();
  if (rank < 2 || order[rank - 1] != rank - 2 || order[rank - 2] != rank - 1) return false;
  for (size_t k = 0; k + 2 < rank; ++k)
    if (order[k] != k) return false;
  return true;
}

Value turned_matrices(Editor& e, Value x) {
  Order order(e.shape(x).rank());
  std::iota(order.begin(), order.end(), size_t{0});
  std::swap(order[order.size() - 1], order[order.size() - 2]);
  return e.add("transpose", {x}, perm_attr(order));
}

// What a transpose of the last two axes meets behind a view that keeps them; v itself where it is none.
Value behind_view(const Editor& e, Value v) {
  const ir::Node* n = view(e, v);
  return n && same_last_axes(e.shape(n->inputs[0]), e.shape(v), 2) ? n->inputs[0] : v;
}

// Whether the transpose of a product, which is the product of transposes the other way round, leaves fewer of them: both merge with
// others, or one of them cancels. The rows of a softmax stay on the left, where they are made for the product that reads them.
bool turns_well(const Editor& e, Value product) {
  const ir::Node* n = e.made_by(product, "matmul");
  if (!n || e.uses(product) != 1) return false;
  const auto is_matrix = [&](Value v) { return e.shape(v).has_rank() && e.shape(v).rank() >= 2; };
  const auto merges = [&](Value v) { return order_of(e, behind_view(e, v)).has_value(); };
  const auto cancels = [&](Value v) {
    const auto own = order_of(e, v);
    return own && turns_matrices(*own);
  };
  const Value a = n->inputs[0], b = n->inputs[1];
  if (e.made_by(behind_view(e, a), "softmax")) return false;
  return is_matrix(a) && is_matrix(b) && ((merges(a) && merges(b)) || cancels(a) || cancels(b));
}

bool into_product(Editor& e, uint32_t id, const Order& order) {
  const Value product = e.node(id).inputs[0];
  if (!turns_matrices(order) || !turns_well(e, product)) return false;
  const ir::Node& n = e.node(product.node);
  const Value left = turned_matrices(e, n.inputs[1]), right = turned_matrices(e, n.inputs[0]);
  return !left.is_none() && !right.is_none() && e.replace({id, 0}, e.add("matmul", {left, right}, n.attrs));
}

// transpose(view(x)) -> view(transpose(x)) where x is a transpose, with which it merges, or such a product.
bool above_view(Editor& e, uint32_t id, const Order& order) {
  const Value seen = e.node(id).inputs[0];
  const Value x = behind_view(e, seen);
  if (x == seen || !turns_matrices(order) || e.uses(seen) != 1) return false;
  if (!order_of(e, x) && !turns_well(e, x)) return false;
  const Value y = turned_matrices(e, x);
  return !y.is_none() && e.replace({id, 0}, reshaped(e, y, e.shape({id, 0})));
}

bool simplify_transpose(Editor& e, uint32_t id) {
  const auto order = order_of(e, {id, 0});
  if (!order) return false;
  const Value x = e.node(id).inputs[0];
  if (is_identity(*order)) return e.replace({id, 0}, x);
  if (const auto first = order_of(e, x)) {
    const Order both = after(*first, *order);
    const Value source = e.node(x.node).inputs[0];
    return e.replace({id, 0}, is_identity(both) ? source : e.add("transpose", {source}, perm_attr(both)));
  }
  if (to_reshape(e, id, *order) || without_unit_axes(e, id, *order) || above_view(e, id, *order) ||
      into_product(e, id, *order))
    return true;
  if (e.constant(x) || undone(e, x, *order, kMaxTransposeDepth, false).is_none()) return false;
  return e.replace({id, 0}, undone(e, x, *order, kMaxTransposeDepth, true));
}

// f(transpose(a), transpose(b)) -> transpose(f(a, b))
bool sink_transposes(Editor& e, uint32_t id) {
  const std::vector<Value> inputs = e.node(id).inputs;
  std::optional<Order> order;
  size_t transposes = 0;
  for (const Value& v : inputs) {
    const auto own = v.is_none() ? std::nullopt : order_of(e, v);
    if (!own || e.uses(v) != 1) continue;
    if (order && *order != *own) return false;
    order = own;
    ++transposes;
  }
  const Shape& shape = e.shape({id, 0});
  if (transposes < 2 || !shape.has_rank() || shape.rank() != order->size() || !can_turn(e, id)) return false;
  std::vector<Value> sources;
  for (const Value& v : inputs) {
    Value source = Value::none();
    if (v.is_none() || (is_scalar_like(e, v) && e.shape(v).rank() == 0)) {
      source = v;
    } else if (order_of(e, v) == order && e.uses(v) == 1) {
      source = e.node(v.node).inputs[0];
    } else if (e.constant(v)) {
      source = moved_constant(e, v, inverse(*order));
    }
    if (source.is_none() != v.is_none()) return false;
    sources.push_back(source);
  }
  const Value f = turned(e, id, std::move(sources), inverse(*order));
  return !f.is_none() && e.replace({id, 0}, e.add("transpose", {f}, perm_attr(*order)));
}

// Matrix products read their operands either way round.
bool absorb(Editor& e, uint32_t id) {
  const ir::Node& n = e.node(id);
  const bool gemm = n.op->name == "gemm";
  for (size_t side : {0, 1}) {
    const Value v = n.inputs[side];
    const auto order = order_of(e, v);
    if (!order || order->size() != 2 || is_identity(*order)) continue;
    if (!gemm && (e.shape(n.inputs[0]).rank() != 2 || e.shape(n.inputs[1]).rank() != 2)) continue;
    std::vector<Value> inputs = n.inputs;
    inputs[side] = e.node(v.node).inputs[0];
    ir::Attrs attrs = n.attrs;
    const char* flag = side == 0 ? "transA" : "transB";
    const int64_t* was = attrs.get<int64_t>(flag);
    attrs.set(flag, int64_t{!(was && *was != 0)});
    return e.replace({id, 0}, e.add("gemm", std::move(inputs), std::move(attrs)));
  }
  return false;
}

}  // namespace

Expected<ir::Graph> cancel_transposes(const ir::Graph& graph, PassContext& context) {
  return rewrite_everywhere(graph, context, [](Editor& e, uint32_t id) {
    const std::string& op = e.node(id).op->name;
    if (op == "transpose") return simplify_transpose(e, id);
    if (op == "gemm" || op == "matmul") return absorb(e, id);
    return e.node(id).inputs.size() > 1 && sink_transposes(e, id);
  });
}

}  // namespace isomer::passes
