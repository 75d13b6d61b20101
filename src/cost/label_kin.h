// Factors of a label space that reduce the same, whatever stands behind it (a relu, a residual and a relu): one of them is
// looked at closely, the others only try what was found to be good for it.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "compile/label_space.h"

namespace isomer::cost {

struct Kin {
  std::string reduction;        // of all of them, or empty
  std::vector<size_t> factors;  // the one that takes longest first: it is looked at for all
  double seconds = 0;           // of all together
  size_t leader() const { return factors[0]; }
};

// All of the factors, each in one kin; the kin that takes longest first.
std::vector<Kin> kin_of(const compile::LabelSpace& space, const std::vector<size_t>& factors,
                        const std::function<double(size_t)>& seconds);

}  // namespace isomer::cost
