// A graph as a plan of kernels: stages, groups, layouts, loops, memory. The graph has numbers for all sizes.
#pragma once

#include <string>
#include <vector>

#include "base/expected.h"
#include "compile/bounds.h"
#include "compile/plan.h"
#include "ir/graph.h"
#include "loop/stmt.h"
#include "loop/target.h"

namespace isomer::compile {

class KernelCache;

struct LowerOptions {
  loop::Target target;
  bool fuse = true;      // off: every stage is a kernel of its own, in row-major order: the naive reference
  bool contract = true;  // off: contractions are plain loops
  bool winograd = true;  // off: no minimal filtering, which rounds otherwise than a sum of products in some order
  bool split = true;     // off: no products of floats in two parts, which leave out some last bits
  bool weights = true;   // off: the plan's weights have no bytes, for those who ask for sizes alone
  bool in_place = true;  // steps write over what they read for the last time
  // The graph is a piece of a larger one, to be priced and not to be run: images at its ends lie as convolutions leave them,
  // channels last, and results as they are computed.
  bool piece = false;
  // Nodes that are lowered at once. Grouping looks at all stages for each pair that it joins: a graph of more nodes than a network
  // has is lowered in pieces of half as many, so that the time is that of its nodes.
  size_t whole = 8000;
  // Results whose size data decides have buffers of the most that they can be; else such graphs are refused.
  bool bounded = false;
  KernelCache* cache = nullptr;  // with weights off and one target: kernels that earlier plans had
  // With a cache: the very plan that would run. Else one whose kernels can be timed on the same buffers again and again, and depend on
  // nothing but their group.
  bool as_run = false;
};

struct Lowered {
  Plan plan;
  std::vector<loop::Function> functions;  // distinct; a step names one of them
  std::vector<std::string> signatures;    // of the functions (loop/signature.h)
  uint64_t least_arena_bytes = 0;         // the most bytes that are alive at once: no plan can do with less
};

// Writes FUNCTION.loops for each function into the folder: the source nodes, then the text of the loops.
Expected<void> dump_loops(const Lowered& lowered, const std::string& folder);

// Of a graph whose nodes are all tensor expressions. The numbers of the symbols in `bounds` are inputs behind the graph's own.
Expected<Lowered> lower_expressions(const ir::Graph& graph, const ir::OpTable& table, const LowerOptions& options,
                                    const Bounds& bounds = {});

// Of any graph that compiled code can take (compile/compose.h); the diagnostic names the first node that it cannot take.
Expected<Lowered> lower(const ir::Graph& graph, const ir::OpTable& table, const LowerOptions& options);

}  // namespace isomer::compile
