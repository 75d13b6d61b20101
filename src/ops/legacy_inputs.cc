#include "ops/legacy_inputs.h"

namespace isomer::ops {
namespace {

template <class T>
std::optional<T> take(ir::ForeignNode& node, std::string_view name) {
  const T* found = node.attrs.get<T>(name);
  if (!found) return std::nullopt;
  T value = *found;
  node.attrs.erase(name);
  return value;
}

}  // namespace

void put_input(ir::ForeignNode& node, size_t position, ir::Value value) {
  if (node.inputs.size() <= position) node.inputs.resize(position + 1, ir::Value::none());
  node.inputs[position] = value;
}

std::optional<std::vector<int64_t>> take_ints(ir::ForeignNode& node, std::string_view name) {
  return take<std::vector<int64_t>>(node, name);
}
std::optional<int64_t> take_int(ir::ForeignNode& node, std::string_view name) { return take<int64_t>(node, name); }
std::optional<double> take_real(ir::ForeignNode& node, std::string_view name) { return take<double>(node, name); }

void ints_to_input(ir::ForeignNode& node, ir::GraphBuilder& builder, std::string_view name, size_t position) {
  if (const auto values = take_ints(node, name)) put_input(node, position, builder.constant(Tensor::ints(*values)));
}

}  // namespace isomer::ops
