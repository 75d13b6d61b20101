// A concat of concats is one, and parts of a value that are put together again in their order are the value: what is left of
// products that were merged row by row and of exporters that take sequences apart.
#include <algorithm>

#include "passes/editor.h"
#include "passes/views.h"

namespace isomer::passes {
namespace {

// Along which a concat or split works; none where the rank is not known.
std::optional<size_t> axis_of(const Editor& e, const ir::Node& n) {
  const Shape& shape = e.shape(n.inputs[0]);
  if (!shape.has_rank()) return std::nullopt;
  const int64_t* given = n.attrs.get<int64_t>("axis");
  const int64_t axis = given ? *given : 0, rank = static_cast<int64_t>(shape.rank());
  return static_cast<size_t>(axis < 0 ? axis + rank : axis);
}

// What is joined or cut along this axis lies one after the other in memory.
bool outermost(const Shape& shape, size_t axis) {
  return std::all_of(shape.dims().begin(), shape.dims().begin() + static_cast<ptrdiff_t>(axis),
                     [](const Dim& d) { return d == Dim(1); });
}

// A part of a value, or a view of one.
struct Part {
  const ir::Node* split;  // null: none
  uint32_t index;
  bool viewed;
};
Part part(const Editor& e, Value v) {
  const ir::Node* looks = view(e, v);
  const Value from = looks ? looks->inputs[0] : v;
  const ir::Node& n = e.node(from.node);
  return {n.op->name == "split" ? &n : nullptr, from.index, looks != nullptr};
}

// How many operands, from this one on, are all parts of one value in their order; 0: not so.
size_t whole_from(const Editor& e, const std::vector<Value>& operands, size_t at) {
  const Part first = part(e, operands[at]);
  const size_t count = first.split ? first.split->types.size() : 0;
  if (count > operands.size() - at) return 0;
  for (size_t k = 0; k < count; ++k)
    if (const Part p = part(e, operands[at + k]); p.split != first.split || p.index != k || p.viewed != first.viewed)
      return 0;
  return count;
}

// The value that these operands are the parts of, at the shape that they have together; none where parts lie between each other.
Value whole(Editor& e, const std::vector<Value>& operands, size_t at, size_t count, size_t axis) {
  const Part first = part(e, operands[at]);
  const Value x = first.split->inputs[0];
  const std::optional<size_t> cut = axis_of(e, *first.split);
  if (!cut) return Value::none();
  if (!first.viewed) return *cut == axis ? x : Value::none();
  if (!outermost(e.shape(x), *cut) || !outermost(e.shape(operands[at]), axis)) return Value::none();
  std::vector<Dim> dims = e.shape(operands[at]).dims();
  for (size_t k = 1; k < count; ++k) {
    const Shape& other = e.shape(operands[at + k]);
    if (!other.has_rank() || other.rank() != dims.size()) return Value::none();
    dims[axis] = dims[axis] + other[axis];
  }
  return reshaped(e, x, Shape(std::move(dims)));
}

bool join(Editor& e, uint32_t id) {
  const ir::Node& n = e.node(id);
  const std::optional<size_t> axis = axis_of(e, n);
  if (!axis) return false;
  std::vector<Value> operands;
  for (size_t k = 0; k < n.inputs.size();) {
    const Value v = n.inputs[k];
    const ir::Node* inner = e.made_by(v, "concat");
    const size_t count = whole_from(e, n.inputs, k);
    const Value x = count > 0 ? whole(e, n.inputs, k, count, *axis) : Value::none();
    if (!x.is_none()) {
      operands.push_back(x);
      k += count;
    } else {
      // One that others read too is stored for them anyway.
      if (inner && axis_of(e, *inner) == axis && e.uses(v) == 1)
        operands.insert(operands.end(), inner->inputs.begin(), inner->inputs.end());
      else
        operands.push_back(v);
      ++k;
    }
  }
  if (operands == n.inputs) return false;
  if (operands.size() == 1) return e.replace({id, 0}, operands[0]);
  return e.replace({id, 0}, e.add("concat", std::move(operands), {{"axis", static_cast<int64_t>(*axis)}}));
}

}  // namespace

Expected<ir::Graph> cancel_concats(const ir::Graph& graph, PassContext& context) {
  return rewrite_everywhere(graph, context,
                            [](Editor& e, uint32_t id) { return e.node(id).op->name == "concat" && join(e, id); });
}

}  // namespace isomer::passes
