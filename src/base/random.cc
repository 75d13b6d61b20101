#include "base/random.h"

#include <cmath>

namespace isomer {

double Random::normal() {
  const double u = 1.0 - uniform();  // in (0, 1]: the logarithm is finite
  const double v = uniform();
  return std::sqrt(-2.0 * std::log(u)) * std::cos(6.283185307179586 * v);
}

}  // namespace isomer
