// Older ONNX forms wrote as attributes what newer ones take as inputs; these move the one to the other.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "ir/graph.h"

namespace isomer::ops {

// Sets an input, filling the places before it with absent ones.
void put_input(ir::ForeignNode& node, size_t position, ir::Value value);
// Takes an attribute out of the node; nothing when it is absent or of another kind.
std::optional<std::vector<int64_t>> take_ints(ir::ForeignNode& node, std::string_view name);
std::optional<int64_t> take_int(ir::ForeignNode& node, std::string_view name);
std::optional<double> take_real(ir::ForeignNode& node, std::string_view name);
// Turns an integer-list attribute, when present, into an i64 constant at an input's place.
void ints_to_input(ir::ForeignNode& node, ir::GraphBuilder& builder, std::string_view name, size_t position);

}  // namespace isomer::ops
