// A node of one graph made again in another one: what every test does that cuts, retypes or reorders a graph.
#pragma once

#include <vector>

#include "ir/graph.h"

namespace isomer::testing {

// By the number of a node of the first graph, what its results are in the second; empty: not there.
using Copied = std::vector<std::vector<ir::Value>>;

// A computed node or a constant, whose inputs are there already.
inline Expected<std::vector<ir::Value>> copied_node(ir::GraphBuilder& b, const ir::Node& n, const Copied& now) {
  if (n.op == &ir::const_op()) return std::vector<ir::Value>{b.constant(*n.attrs.get<Tensor>("value"), n.names[0])};
  std::vector<ir::Value> in;
  for (const ir::Value& v : n.inputs) in.push_back(v.is_none() ? v : now[v.node][v.index]);
  return b.add(*n.op, std::move(in), n.attrs, {n.names, n.label, n.origin}, n.types.size());
}

}  // namespace isomer::testing
