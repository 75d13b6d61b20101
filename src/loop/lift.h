// Rewrites a program so that a Reduce stands only at the top of a stage and is a Sum, Product, Max or Min.
#pragma once

#include "te/program.h"

namespace isomer::loop {

// Reductions inside of expressions become stages, computed only where the expression would have been; positions of
// extrema become a reduction of values and one of positions; sums of 16-bit floats are taken in f32. Axes are renamed so
// that none is bound twice.
te::Program lift_reductions(const te::Program& program);

}  // namespace isomer::loop
