// Element-wise nodes, known by their expressions and not by their names: an operator that is added tomorrow counts too.
#pragma once

#include "passes/editor.h"

namespace isomer::passes {

// Each element of the one result depends on the inputs' elements at the same place alone, with broadcasting.
bool is_elementwise(const Editor& editor, uint32_t node);

// The element-wise node on other inputs, whose places are those of the old ones in another order; none when the operator
// refuses them or is no longer element-wise there (a transpose is, on a vector, and not on a matrix).
Value elsewhere(Editor& editor, uint32_t node, std::vector<Value> inputs);

// A value of one element that broadcasts without making anything larger.
bool is_scalar_like(const Editor& editor, Value v);

}  // namespace isomer::passes
