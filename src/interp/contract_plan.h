// Decides whether a contraction can be computed as a matrix product of rows and lanes.
#pragma once

#include <vector>

#include "interp/block_program.h"
#include "interp/contract_match.h"

namespace isomer::interp {

// Fills row_axes, lanes_in_a and the guards of rows and lanes when it can; `c` has the parts of `m` in the same order,
// and the stage has the extents `dims`.
void plan_rows(Contraction& c, const ContractionMatch& m, const std::vector<int64_t>& dims, int lane_axis);

}  // namespace isomer::interp
