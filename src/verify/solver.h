// Solver: does a conjunction of polynomial inequalities over the integers follow from another? Quotients are replaced by their
// definitions; what bounds and earlier examples leave open is a linear problem (linear_solver.h). Only "yes" carries weight: what is
// not seen to follow is answered "no".
// The order of questions decides nothing but time: the same question has the same answer in one proof.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "verify/linear_solver.h"
#include "verify/poly.h"

namespace isomer::verify {

struct SolverStats {
  uint64_t queries = 0, cached = 0, quick = 0, pooled = 0, solved = 0, unknown = 0;
};

class Solver {
 public:
  explicit Solver(Atoms& atoms, uint64_t max_queries = 60000) : atoms_(atoms), max_queries_(max_queries) {}

  bool entails(const Guards& context, const Poly& p);  // p >= 0 wherever the context holds
  bool entails_zero(const Guards& context, const Poly& p) {
    return p.is_zero() || (entails(context, p) && entails(context, -p));
  }
  bool infeasible(const Guards& context);
  // The same as entails with more effort: a number in mixed radix is compared digit by digit.
  bool entails_by_digits(const Guards& context, const Poly& p);

  Atoms& atoms() { return atoms_; }
  const SolverStats& stats() const { return stats_; }

 private:
  bool unsat(Guards s, int depth);
  bool by_digits(const Guards& context, const Poly& p, int depth);
  bool obvious(const Poly& p) const;  // p >= 0 by the bounds of the sizes alone
  Guards cone(const Guards& context, const Poly& p) const;
  // The first `goals` of s are rewritten along with the rest, but nothing is concluded from them.
  void flatten_quotients(Guards& s, int depth, size_t goals = 0);
  bool flatten_one(Guards& s, AtomId quotient, int depth, size_t goals);
  bool quick(const Guards& s) const;
  bool in_pool(const Guards& s) const;
  bool check(const Guards& s);

  Atoms& atoms_;
  uint64_t max_queries_;
  SolverStats stats_;
  std::map<Guards, bool> cache_;
  std::map<AtomId, std::pair<AtomId, AtomId>> parts_;  // of a quotient: the variables that stand for it and its rest
  std::vector<LinearSolver::Values> pool_;
  size_t next_in_pool_ = 0;
  LinearSolver linear_;
};

// Guards brought to one form: common factors divided out and rounded, constants decided. False: one can never hold.
bool tidy(const Atoms& atoms, Guards& guards);
Poly tidy(const Atoms& atoms, const Poly& guard);

}  // namespace isomer::verify
