// How values lie in memory: for each value an order of its axes, outermost first; dense, with a line between rows that would
// push each other out of the first cache, or a part of another one. The graph's axes never change; channels last between
// convolutions is nothing but an order.
// Invariant: inputs and outputs of the model, and both sides of a view, are row-major (axes of extent 1 aside).
#pragma once

#include <cstdint>
#include <vector>

#include "compile/group.h"
#include "compile/stage_graph.h"

namespace isomer::compile {

struct Layout {
  std::vector<int> order;        // dims, outermost first
  std::vector<int64_t> strides;  // by dim, in elements
  int64_t span = 0;              // elements from the first to the last, both included; holes count
  int64_t offset = 0;            // of a part: where it starts in its outermost host, in elements
};

Layout layout_of(const std::vector<int64_t>& dims, std::vector<int> order);
Layout row_major(const std::vector<int64_t>& dims);

// One layout per value. Constants are row-major, as they come; a kernel that wants one otherwise stores a copy.
// `orders`: by value, those that are wanted where the value is not fixed; empty ones are chosen.
std::vector<Layout> choose_layouts(const StageGraph& graph, const std::vector<Group>& groups,
                                   const std::vector<std::vector<int>>& orders = {}, bool open_ports = false);
// The values that must be row-major; with `open_ports` inputs and outputs need not.
std::vector<bool> fixed_values(const StageGraph& graph, bool open_ports = false);

}  // namespace isomer::compile
