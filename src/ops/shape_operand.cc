#include "ops/shape_operand.h"

#include <fmt/format.h>

#include <algorithm>

namespace isomer::ops {
namespace {

std::string input_name(const ir::OpContext& c, size_t i) {
  return c.op().inputs[std::min(i, c.op().inputs.size() - 1)].name;
}

}  // namespace

Expected<Shape> shape_operand(const ir::OpContext& c, size_t i) {
  if (!c.shape(i).has_rank()) return Shape::unknown();
  if (c.rank(i) != 1)
    return c.error(fmt::format("input '{}' must be a vector, found {}", input_name(c, i), c.type(i).to_string()));
  const auto length = c.dim(i, 0).constant();
  if (!length) return Shape::unknown();
  if (*length < 0 || *length > static_cast<int64_t>(kMaxRank))
    return c.error(
        fmt::format("input '{}' has {} elements, at most {} are taken", input_name(c, i), *length, kMaxRank));
  auto sizes = c.sizes(i);
  if (!sizes || static_cast<int64_t>(sizes->size()) != *length)
    return Shape(std::vector<Dim>(static_cast<size_t>(*length), Dim::invalid()));
  return Shape(*std::move(sizes));
}

Expected<Shape> size_operand(const ir::OpContext& c, size_t i) {
  ISOMER_TRY(Shape shape, shape_operand(c, i));
  if (!shape.has_rank()) return shape;
  for (const Dim& d : shape.dims())
    if (d.is_const() && d.value() < 0)
      return c.error(fmt::format("input '{}' holds the size {}, expected 0 or more", input_name(c, i), d.value()));
  return shape;
}

Expected<std::vector<size_t>> resolve_axes(const ir::OpContext& c, std::span<const int64_t> axes, size_t rank) {
  std::vector<size_t> out;
  std::vector<bool> seen(rank, false);
  for (int64_t a : axes) {
    ISOMER_TRY(const size_t axis, c.axis(a, rank));
    if (seen[axis]) return c.error(fmt::format("axis {} is named twice", axis));
    seen[axis] = true;
    out.push_back(axis);
  }
  return out;
}

Expected<std::optional<std::vector<size_t>>> axes_operand(const ir::OpContext& c, size_t i, size_t rank) {
  if (c.shape(i).has_rank() && c.rank(i) > 1)
    return c.error(fmt::format("input '{}' must be a vector, found {}", input_name(c, i), c.type(i).to_string()));
  const auto values = c.ints_value(i);
  if (!values) return std::optional<std::vector<size_t>>();
  ISOMER_TRY(std::vector<size_t> axes, resolve_axes(c, *values, rank));
  return std::optional(std::move(axes));
}

Expected<std::optional<Dim>> scalar_operand(const ir::OpContext& c, size_t i) {
  const Shape& s = c.shape(i);
  if (s.has_rank() && (s.rank() > 1 || (s.rank() == 1 && s[0].is_const() && s[0].value() != 1)))
    return c.error(
        fmt::format("input '{}' must be a single number, found {}", input_name(c, i), c.type(i).to_string()));
  const auto sizes = c.sizes(i);
  if (!sizes || sizes->size() != 1 || sizes->front().is_invalid()) return std::optional<Dim>();
  return std::optional(sizes->front());
}

Diagnostic needs_value(const ir::OpContext& c, size_t i) {
  return c.error(fmt::format("needs the value of input '{}', which is not known here", input_name(c, i)));
}

Expected<std::vector<Dim>> known_dims(const ir::OpContext& c, const Shape& shape, size_t i) {
  if (!shape.has_rank()) return needs_value(c, i);
  for (const Dim& d : shape.dims())
    if (d.is_invalid()) return needs_value(c, i);
  return shape.dims();
}

Expected<Dim> same_dim(const ir::OpContext& c, const Dim& a, const Dim& b, const char* what) {
  if (a.is_const() && b.is_const() && !(a == b))
    return c.error(fmt::format("{} must be equal, found {} and {}", what, a.value(), b.value()));
  return a.is_const() || !b.is_const() ? a : b;
}

}  // namespace isomer::ops
