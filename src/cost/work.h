// Work: what one run of a kernel has to do, counted on its loops: products in register tiles, instructions outside of them,
// bytes of its arguments. The analytic model's only view of a kernel.
#pragma once

#include <vector>

#include "loop/stmt.h"
#include "loop/target.h"

namespace isomer::cost {

struct Work {
  double tile_flops = 0;    // products and sums inside tensor intrinsics of vector registers
  double split_flops = 0;   // and of tile registers, floats in two parts
  double instructions = 0;  // of all other statements; one vector instruction counts as one, like a scalar one
  double bytes = 0;         // of the arguments, each element that is touched once
  std::vector<double> of_argument = {};  // of these bytes
};

Work work_of(const loop::Function& function, const loop::Target& target);

}  // namespace isomer::cost
