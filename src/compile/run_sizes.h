// The small kernels at the end of a plan whose outputs have sizes that a run tells.
#pragma once

#include <string>
#include <vector>

#include "loop/stmt.h"
#include "tensor/type.h"

namespace isomer::compile {

// The symbols of a shape, each once.
std::vector<std::string> symbols_of(const Shape& shape);

// (from, to, numbers of the symbols): the elements of a run, from a buffer of the bounds, one after the other.
loop::Function pack_loops(DType type, const std::vector<int64_t>& bounds, const Shape& shape, const std::string& name);

// (dims, numbers of the symbols): the dims of a run.
loop::Function dims_loops(const Shape& shape, const std::string& name);

}  // namespace isomer::compile
