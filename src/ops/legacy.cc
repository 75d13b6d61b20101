#include "ops/legacy.h"

#include <fmt/format.h>

namespace isomer::ops {
namespace {

Diagnostic wrong(const ir::ForeignNode& n, std::string_view what) {
  return Diagnostic("E-onnx-form", fmt::format("{} of opset {}: {}", n.type, n.version, what));
}

}  // namespace

Imported import_without_consumed(ir::ForeignNode& node, ir::GraphBuilder& builder) {
  if (node.version < 6) node.attrs.erase("consumed_inputs");
  return add_as_is(node, builder);
}

Expected<ir::Value> append_unit_axes(ir::GraphBuilder& builder, ir::Value value, size_t count) {
  if (count == 0) return value;
  const size_t rank = builder.type(value).shape.rank();
  std::vector<int64_t> axes;
  for (size_t i = 0; i < count; ++i) axes.push_back(static_cast<int64_t>(rank + i));
  return builder.add1("unsqueeze", {value, builder.constant(Tensor::ints(axes))});
}

Imported import_broadcast(ir::ForeignNode& node, ir::GraphBuilder& builder) {
  if (node.version >= 7) return add_as_is(node, builder);
  node.attrs.erase("consumed_inputs");
  const bool broadcast = take_int(node, "broadcast").value_or(0) != 0;
  const std::optional<int64_t> axis = take_int(node, "axis");
  if (!broadcast || !axis || node.inputs.size() != 2 || node.inputs[0].is_none() || node.inputs[1].is_none())
    return add_as_is(node, builder);
  const Shape& a = builder.type(node.inputs[0]).shape;
  const Shape& b = builder.type(node.inputs[1]).shape;
  if (!a.has_rank() || !b.has_rank()) return wrong(node, "broadcasting at an axis needs operands of known rank");
  const auto rank = static_cast<int64_t>(a.rank()), own = static_cast<int64_t>(b.rank());
  // -1 is how early exporters wrote "at the end".
  const int64_t first = *axis == -1                     ? rank - own
                        : *axis < -rank || *axis > rank ? -1
                        : *axis < 0                     ? *axis + rank
                                                        : *axis;
  if (first < 0 || own > rank || first > rank - own)
    return wrong(node,
                 fmt::format("operand {} does not fit at axis {} of operand {}", b.to_string(), *axis, a.to_string()));
  ISOMER_TRY(node.inputs[1], append_unit_axes(builder, node.inputs[1], static_cast<size_t>(rank - own - first)));
  return add_as_is(node, builder);
}

Imported import_axes(ir::ForeignNode& node, ir::GraphBuilder& builder) {
  const auto* axes = node.attrs.get<std::vector<int64_t>>("axes");
  if (axes && node.inputs.size() == 1) {
    node.inputs.push_back(builder.constant(Tensor::ints(*axes)));
    node.attrs.erase("axes");
  }
  return add_as_is(node, builder);
}

Imported import_rows(ir::ForeignNode& node, ir::GraphBuilder& builder) {
  if (node.version >= 13 || node.inputs.size() != 1 || node.inputs[0].is_none()) return add_as_is(node, builder);
  node.attrs.erase("consumed_inputs");
  const ir::Value x = node.inputs[0];
  const int64_t axis = take_int(node, "axis").value_or(1);
  const Shape& shape = builder.type(x).shape;
  const auto rank = shape.has_rank() ? static_cast<int64_t>(shape.rank()) : -1;
  if (axis == -1 || (rank > 0 && axis == rank - 1)) return add_as_is(node, builder);
  ISOMER_TRY(const ir::Value dims, builder.add1("shape", {x}));
  ISOMER_TRY(const ir::Value rows, builder.add1("flatten", {x}, {{"axis", axis}}));
  ISOMER_TRY(const std::vector<ir::Value> y, builder.add(*node.op, {rows}));
  return builder.add("reshape", {y[0], dims}, {{"allowzero", int64_t{1}}}, std::move(node.info));
}

}  // namespace isomer::ops
