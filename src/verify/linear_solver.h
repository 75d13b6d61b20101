// LinearSolver: can inequalities between polynomials over the integers hold together? Z3 is told every monomial as a variable of
// rational linear arithmetic, and beside the guards bounds of sizes, products of guards, signs of products.
// Invariant: all that is told follows from the guards, so that "impossible" carries over; values are those of the linear problem.
#pragma once

#include <map>
#include <memory>
#include <optional>

#include "verify/poly.h"

namespace isomer::verify {

class LinearSolver {
 public:
  using Values = std::map<AtomId, double>;
  // Neither impossible nor with values: not known.
  struct Answer {
    bool impossible = false;
    std::optional<Values> values;
  };

  LinearSolver();
  ~LinearSolver();

  Answer ask(const Atoms& atoms, const Guards& guards);

 private:
  struct Z3;
  std::unique_ptr<Z3> z3_;
};

}  // namespace isomer::verify
