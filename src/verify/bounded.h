// The fallbacks of a proof, for pairs that the proof for all sizes does not reach. Both follow a search for a
// counterexample that found none, and both say less than it does:
//   bounded: at every choice of sizes up to a bound that meets the conditions, both sides are executed on symbols and give
//     the same terms (terms.h); nothing is left to chance.
//   field: at random sizes, both sides agree on random elements of the field of 2^61 - 1; the error is the chance that two
//     different functions agree so, by the degree of their polynomials. Not for maxima: no polynomial speaks of an order.
#pragma once

#include "ir/graph.h"
#include "verify/verdict.h"

namespace isomer::verify {

// Makes an undecided verdict a weaker proof where it can; otherwise it stays as it is.
void prove_bounded(const ir::Graph& left, const ir::Graph& right, const Conditions& conditions,
                   const ir::OpTable& table, Verdict& verdict);
void prove_over_field(const ir::Graph& left, const ir::Graph& right, const Conditions& conditions,
                      const ir::OpTable& table, uint64_t seed, Verdict& verdict);

}  // namespace isomer::verify
