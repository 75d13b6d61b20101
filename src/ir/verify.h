// The verifier of graphs: what every Graph promises, checked again from its nodes alone. Readers of files run it on
// what they made; a failure there is a bug of the reader or a file that found one.
#pragma once

#include "base/expected.h"
#include "ir/graph.h"

namespace isomer::ir {

// Indices in range, topological order, one name per result and no name twice, bodies that take their captures.
Expected<void> verify_structure(const Graph& graph);
// verify_structure, and every node against its record: arity, attribute kinds, types that agree with inferred ones.
Expected<void> verify(const Graph& graph, const OpTable& table);

}  // namespace isomer::ir
