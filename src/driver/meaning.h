// A node's meaning to look at: its record's expression or expansion at the node's types.
#pragma once

#include <string>

#include "base/expected.h"
#include "ir/graph.h"

namespace isomer::driver {

// The tensor expression or the graph that an operator means at the types of one of its samples, as text; a sentence
// when it has neither.
Expected<std::string> meaning_of_sample(const ir::OpDef& op, const std::string& sample);

}  // namespace isomer::driver
