// Operators whose result is as long as the data says, as procedures with a bound: results lie in buffers of the most that there can
// be, and one more output of the part, behind those of the node, is the number that there are.
#pragma once

#include <optional>

#include "compile/compose.h"

namespace isomer::compile {

// The size of a node's results that a run tells: its symbol in each of them, and the most that it can be.
struct RunSize {
  std::vector<std::string> symbols;
  int64_t most = 0;
};
// Nothing where the node is no such operator, or its inputs have no known sizes.
std::optional<RunSize> run_size(const ir::Graph& graph, const ir::Node& node);

// Whether the node is such an operator, whatever its inputs.
bool is_selection(const ir::Node& node);

// The part for such a node.
Expected<Lowered> selection(const Composer& composer, const ir::Graph& graph, const ir::Node& node);

}  // namespace isomer::compile
