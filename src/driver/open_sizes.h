// What the open sizes of a model are taken to be where it has to be priced and run: sizes that a run takes.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "base/expected.h"
#include "driver/inputs.h"
#include "ir/graph.h"

namespace isomer::driver {

using Sizes = std::map<std::string, int64_t>;

// The graph with these sizes in its inputs; symbols that are not named stay.
Expected<ir::Graph> with_sizes(const ir::Graph& graph, const Sizes& sizes);

// One for the first dim of an input, and for others the first of a few lengths at which the model runs on random inputs: windows, and
// branches that data choose, may take some of them only. Where no length fits all inputs alike, those of one input with 1 for
// the others are tried, then 2 to 16 for the first dims. Sizes that are given stay. A model that takes none of them gives the diagnostic of the first.
Expected<Sizes> open_sizes(const ir::Graph& graph, const Sizes& given, const InputOptions& inputs);

}  // namespace isomer::driver
