// Products of quantised numbers as products of bytes. A sum of products of bytes less their zero points (and times scales that
// do not change along the sum) becomes
//   sum (a - za)(b - zb) = sum a b - za sum b - zb sum a + K za zb:
// a contraction of the bytes themselves, which a target has tiles for, and an element-wise stage that the contraction takes
// along. Sums of constants are taken when the model is compiled. Where no tile fits (windows that keep their channels apart) the bytes less zero
// points are summed as floats, where these hold every partial sum. I32 results are the same to the last bit, as all of it wraps
// alike; floats are exact up to the rounding of the sum and of the two factors, which is less than what a sum of
// floats leaves out.
#pragma once

#include "compile/stage_graph.h"
#include "loop/target.h"

namespace isomer::compile {

// Rewrites every such sum over constant weights. The results of the model stay the same.
void integer_products(StageGraph& graph, const loop::Target& target);

}  // namespace isomer::compile
