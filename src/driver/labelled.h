// A graph with labels for the compiler (compile/labels.h) among the properties of its metadata.
#pragma once

#include <string>

#include "base/expected.h"
#include "ir/graph.h"

namespace isomer::driver {

// The same graph, with this text as its labels in place of any it had; "" takes them away.
Expected<ir::Graph> with_labels(const ir::Graph& graph, const std::string& labels);

}  // namespace isomer::driver
