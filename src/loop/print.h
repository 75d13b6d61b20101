// The text of a function in its final form: buffers, then one line a statement, indented by nesting. For people, dumps
// and tests; variables with the same name are told apart by their number.
#pragma once

#include <string>

#include "loop/stmt.h"

namespace isomer::loop {

std::string print(const Function& function);

std::string_view name(Scope scope);    // "argument", "scratch", "local"
std::string_view name(LoopKind kind);  // "for", "parallel", "vector", "unroll"

}  // namespace isomer::loop
