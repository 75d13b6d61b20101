// Distinct elements, or slices along an axis: sorted by merging, which keeps equal ones in order, so the first of each run is its
// earliest. O(n log n) comparisons of slices.
#pragma once

#include "compile/assembly.h"
#include "ir/graph.h"

namespace isomer::compile {

// Slices that are compared.
int64_t slices_of(const ir::Graph& graph, const ir::Node& node);

// The part of the node, of which there is at least one slice; `count` gets the number of distinct ones.
void add_distinct(const ir::Graph& graph, const ir::Node& node, const Place& count, Assembly& assembly);

}  // namespace isomer::compile
