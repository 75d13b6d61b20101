// Products of half-precision numbers as products of floats. F16 and BF16 are computed in float and rounded when they are stored, so a
// sum of their products is one of floats, rounded at the end; operands are widened once each, constants when the model is compiled.
#pragma once

#include "compile/stage_graph.h"

namespace isomer::compile {

// Rewrites every contraction of F16 or BF16. The results of the model stay the same, up to the order of sums.
void widened_products(StageGraph& graph);

}  // namespace isomer::compile
