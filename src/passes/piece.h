// Pieces of graphs: some of its nodes as a graph of their own, and a graph at given sizes and contents of its inputs.
#pragma once

#include <optional>
#include <vector>

#include "ir/graph.h"
#include "tensor/tensor.h"

namespace isomer::passes {

struct Piece {
  ir::Graph graph;
  std::vector<ir::Value> inputs, outputs;  // values of the whole graph that the piece's inputs and outputs are
};

// The nodes `taken` (by id; inputs and constants are not asked for) as a graph. Constants that they read go along; every
// value that others or the outputs of the graph need is an output.
Expected<Piece> cut(const ir::Graph& graph, const std::vector<bool>& taken, const ir::OpTable& table);

// The graph with inputs of these types, and with constants in place of the inputs that have contents here: those are no
// inputs any more. Types are inferred anew.
Expected<ir::Graph> specialise(const ir::Graph& graph, const std::vector<Type>& types,
                               const std::vector<std::optional<Tensor>>& contents, const ir::OpTable& table);

}  // namespace isomer::passes
