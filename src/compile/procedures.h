// Procedures: operators whose results have known sizes and are loops, but no tensor expressions: what they write where depends on
// data (scattering), or the order in which they look at it does (sorting). Draws are constants: the same in every run.
// Beside control flow the only operators that the compiler knows by name; each part gives the bytes of the reference kernel.
#pragma once

#include <optional>
#include <vector>

#include "compile/compose.h"

namespace isomer::compile {

// The part for one node with static types: its inputs and outputs are those of the node by number. Nothing where the operator has no
// procedure.
std::optional<Expected<Lowered>> procedure(const Composer& composer, const ir::Graph& graph, const ir::Node& node);

bool is_procedure(const ir::Node& node);

// The integers of an attribute; none when it is absent.
std::vector<int64_t> ints_of(const ir::Node& node, const char* name);

// By operator, each in a file for its kind.
Expected<Lowered> scatter_elements(const Composer& composer, const ir::Graph& graph, const ir::Node& node);
Expected<Lowered> scatter_nd(const Composer& composer, const ir::Graph& graph, const ir::Node& node);
Expected<Lowered> max_unpool(const Composer& composer, const ir::Graph& graph, const ir::Node& node);
Expected<Lowered> forest_votes(const Composer& composer, const ir::Graph& graph, const ir::Node& node);
Expected<Lowered> determinants(const Composer& composer, const ir::Graph& graph, const ir::Node& node);
Expected<Lowered> counted_grams(const Composer& composer, const ir::Graph& graph, const ir::Node& node);
Expected<Lowered> coupled(const Composer& composer, const ir::Graph& graph, const ir::Node& node);
Expected<Lowered> top_k(const Composer& composer, const ir::Graph& graph, const ir::Node& node);

}  // namespace isomer::compile
