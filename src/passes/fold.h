// Evaluates one new node on constants inside an editor.
#pragma once

#include "passes/editor.h"

namespace isomer::passes {

// The constant that the operator gives on constants; none when it refuses. The node itself is abandoned.
Value folded(Editor& editor, std::string_view op, std::vector<Value> inputs, ir::Attrs attrs = {});

}  // namespace isomer::passes
