// A node as its operator sees it in a graph that is not being run: types, and the contents of constants.
#pragma once

#include "ir/graph.h"

namespace isomer::ir {

OpContext context_of(const Graph& graph, const Node& node, const OpTable& table);

}  // namespace isomer::ir
