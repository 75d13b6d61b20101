// Partition: who computes each node of a graph. Compiled code takes what is stages of tensor expressions at known sizes;
// what is not runs by its reference kernel, and what depends on sizes or contents that only a run can tell waits for it. Results whose
// size data decides end a compiled piece; control flow that cannot be compiled as a whole is driven: its bodies run compiled, each at
// the sizes that it meets.
#pragma once

#include <string>
#include <vector>

#include "ir/graph.h"

namespace isomer::driver {

enum class By : uint8_t { Compiled, Driven, Reference, Later };

struct Choice {
  By by = By::Compiled;
  std::string reason;  // why it is not compiled
};

struct Partition {
  std::vector<Choice> nodes;  // by id; inputs and constants count as compiled
  bool whole = false;         // compiled code takes everything
};

// The graph has numbers for the sizes of all inputs.
Partition partition(const ir::Graph& graph);

// What is chosen for an operator with a reference kernel alone.
Choice opaque_choice();

// The inputs of the graph whose contents decide about sizes inside (shapes, starts, scales): their numbers.
std::vector<size_t> size_inputs(const ir::Graph& graph);

}  // namespace isomer::driver
