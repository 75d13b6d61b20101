// What a graph is when the nodes that no output needs are gone. Graph inputs stay: they are the interface.
#pragma once

#include "ir/graph.h"

namespace isomer::passes {

Expected<ir::Graph> without_dead_code(const ir::Graph& graph, const ir::OpTable& table);

}  // namespace isomer::passes
