// Sums of quantised products that are quantised again. Between the sum and its bytes stand a factor, a bias, bounds and a division by the
// new scale, all by constants: the division goes into the constants,
//   (sum * a + b) / s = sum * (a / s) + b / s    and    max(x, c) / s = max(x / s, c / s),
// and bounds that the range of the bytes implies go. The new constants are rounded once, from doubles: no more than what the
// factor, the bias and the division each round by. What has no reduction before it is left as it is, so that its bytes stay those that
// the operators say, bit by bit.
#pragma once

#include "compile/stage_graph.h"

namespace isomer::compile {

// Rewrites every such stage. The results of the model stay the same, up to rounding before the bytes are rounded.
void requantised(StageGraph& graph);

}  // namespace isomer::compile
