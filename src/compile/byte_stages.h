// Bytes that are dequantised, only moved or compared, and quantised again stay bytes in between. Dequantising by one scale and zero
// point is a growing function, so it goes behind
//   - moves (transposes, slices, reshapes) and concatenations of bytes of one scale,
//   - maxima and minima, and sums, which floats hold as integers: (max b - z) s = max (b - z) s,
// and quantising what was dequantised by the same scale and zero point is nothing. All of it is exact but the sums, which round
// less than sums of floats.
#pragma once

#include "compile/stage_graph.h"

namespace isomer::compile {

// The results of the model stay the same.
void byte_stages(StageGraph& graph);

}  // namespace isomer::compile
