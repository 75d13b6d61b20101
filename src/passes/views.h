// Views: nodes that only look at a value in another shape, its elements in the same order.
#pragma once

#include <optional>
#include <string>

#include "passes/editor.h"

namespace isomer::passes {

bool is_view(const std::string& op);

// The node that makes v by looking at its first input; else null.
const ir::Node* view(const Editor& editor, Value v);

// x at another shape: x itself where it has that shape already, none where the shape cannot be written with numbers.
Value reshaped(Editor& editor, Value x, const Shape& to);

// Whether the last `count` axes are the same in both, and of known or equal extents.
bool same_last_axes(const Shape& a, const Shape& b, size_t count);

}  // namespace isomer::passes
