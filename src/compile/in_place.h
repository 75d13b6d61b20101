// Whether a kernel may write over what it reads: an element-wise stage, or the epilogue of a product that adds a residual.
#pragma once

#include "loop/stmt.h"

namespace isomer::compile {

// Whether the argument `written` may lie where the read-only argument `read` lies. Sound when the function stores all
// elements of `written`: then `read` is needed only by the statement that overwrites the same element, once.
bool may_share(const loop::Function& function, int read, int written);

// The function with one argument for both: reads of `read` are reads of `written`, and the argument `read` is gone.
loop::Function sharing(loop::Function function, int read, int written);

}  // namespace isomer::compile
