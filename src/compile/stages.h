// A model's nodes as stages: what each operator computes, composites walked in place, reductions brought to the root.
#pragma once

#include "base/expected.h"
#include "compile/bounds.h"
#include "compile/stage_graph.h"
#include "ir/graph.h"

namespace isomer::compile {

// All nodes of the graph as stages; a diagnostic names the first node that has none. Axes whose size has symbols of `bounds` are as
// long as these allow: elements past the end are zero, and nothing is reduced over them.
Expected<StageGraph> stages_of(const ir::Graph& graph, const ir::OpTable& table, const Bounds& bounds = {});

}  // namespace isomer::compile
