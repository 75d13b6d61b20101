// Stages that only constants go into, computed when the model is compiled: weights that are dequantised or unpacked.
#pragma once

#include "compile/stage_graph.h"

namespace isomer::compile {

enum class Taken { Moves, All };  // only stages that hand on elements as they are, or every one

// Makes the values of such stages constants, except outputs and what would have far more elements than what it is made of.
// Without `contents` they have no meaning, for those who ask for sizes alone.
void constant_stages(StageGraph& graph, bool contents, Taken taken = Taken::All);

}  // namespace isomer::compile
