// Runs a Contraction on a block of lanes: ranges are clipped by the guards, never masked, and every lane's sum is taken
// in axis order.
#pragma once

#include <cstdint>
#include <functional>

#include "interp/block_program.h"

namespace isomer::interp {

// acc := the sums of n lanes. `keep_going` is asked now and then; false leaves the sums unfinished.
void run_contraction(const Contraction& c, const int64_t* slots, double* acc, int n,
                     const std::function<bool()>& keep_going);

}  // namespace isomer::interp
