// Pieces of graphs (passes/piece.h) with the operators that the tool knows.
#pragma once

#include "ops/table.h"
#include "passes/piece.h"

namespace isomer::driver {

using passes::Piece;

inline Expected<Piece> cut(const ir::Graph& graph, const std::vector<bool>& taken) {
  return passes::cut(graph, taken, ops::table());
}

inline Expected<ir::Graph> specialise(const ir::Graph& graph, const std::vector<Type>& types,
                                      const std::vector<std::optional<Tensor>>& contents) {
  return passes::specialise(graph, types, contents, ops::table());
}

}  // namespace isomer::driver
