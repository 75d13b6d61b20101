// A composite operator is lowered as the expression that it expands to. One whose expansion holds a node that is no expression
// (draws, trees) cannot be: it is opened, so that the composition sees that node.
#pragma once

#include <optional>

#include "base/expected.h"
#include "ir/graph.h"

namespace isomer::compile {

// The graph with such composites replaced by their expansions, through all levels; nothing where there is none.
Expected<std::optional<ir::Graph>> open_composites(const ir::Graph& graph, const ir::OpTable& table);

}  // namespace isomer::compile
