// Narrowing ranges of lanes or loop points by affine inequalities.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/arithmetic.h"

namespace isomer::interp {

// Narrows [from, to) to the x >= 0 with value + step * x >= 0; to <= from when there are none.
inline void clip(int64_t value, int64_t step, int64_t& from, int64_t& to) {
  if (step == 0) {
    if (value < 0) to = std::min(to, from);
  } else if (step > 0) {
    if (value < 0) from = std::max(from, step == 1 ? -value : -floor_div(value, step));
  } else {
    to = std::min(to, value < 0 ? int64_t{0} : value / -step + 1);
  }
}

}  // namespace isomer::interp
