#include "passes/views.h"

#include <utility>
#include <vector>

namespace isomer::passes {
namespace {

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

}  // namespace

bool is_view(const std::string& op) {
  return op == "reshape" || op == "flatten" || op == "squeeze" || op == "unsqueeze";
}

const ir::Node* view(const Editor& e, Value v) {
  return !v.is_none() && v.index == 0 && is_view(e.node(v.node).op->name) ? &e.node(v.node) : nullptr;
}

Value reshaped(Editor& e, Value x, const Shape& to) {
  if (e.shape(x).has_rank() && e.shape(x) == to) return x;
  const auto dims = shape_operand(e.shape(x), to);
  return dims ? e.add("reshape", {x, e.constant(Tensor::ints(*dims))}) : Value::none();
}

bool same_last_axes(const Shape& a, const Shape& b, size_t count) {
  if (!a.has_rank() || !b.has_rank() || a.rank() < count || b.rank() < count) return false;
  for (size_t k = 1; k <= count; ++k)
    if (!(a[a.rank() - k] == b[b.rank() - k])) return false;
  return true;
}

}  // namespace isomer::passes
