// Element-wise nodes, known by their expressions and not by their names: an operator that is added tomorrow counts too.
#pragma once

#include "passes/editor.h"

namespace isomer::passes {

// Each element of the one result depends on the inputs' elements at the same place alone, with broadcasting.
bool is_elementwise(const Editor& editor, uint32_t node);

// A value of one element that broadcasts without making anything larger.
bool is_scalar_like(const Editor& editor, Value v);

}  // namespace isomer::passes
