// Rebuild: a graph written anew, node by node in its order, so that each node sees what became of its inputs and types
// are inferred from there. For passes that look at every node once.
#pragma once

#include <functional>
#include <vector>

#include "ir/graph.h"

namespace isomer::passes {

class Rebuild {
 public:
  Rebuild(const ir::Graph& graph, const ir::OpTable& table);

  const ir::Graph& graph() const { return *graph_; }
  ir::GraphBuilder& builder() { return builder_; }
  // What a value of the old graph is in the new one.
  ir::Value now(ir::Value old) const { return old.is_none() ? old : values_[old.node][old.index]; }
  std::vector<ir::Value> inputs(uint32_t id) const;
  // The node as it is, on what its inputs became; `results` of its results (0: all).
  Expected<void> copy(uint32_t id, size_t results = 0);
  void set(uint32_t id, std::vector<ir::Value> values) { values_[id] = std::move(values); }
  Expected<ir::Graph> finish() && { return std::move(*this).finish(graph_->outputs()); }
  Expected<ir::Graph> finish(const std::vector<ir::Output>& outputs) &&;  // values of the old graph

 private:
  const ir::Graph* graph_;
  ir::GraphBuilder builder_;
  std::vector<std::vector<ir::Value>> values_;
};

// `visit` copies or sets each node but the inputs, which are there already; a node it leaves out must not be read.
Expected<ir::Graph> rebuild(const ir::Graph& graph, const ir::OpTable& table,
                            const std::function<Expected<void>(Rebuild&, uint32_t id)>& visit);

}  // namespace isomer::passes
