// The door of the prover: are two graphs of the same inputs and outputs the same function for all sizes?
#pragma once

#include "ir/graph.h"
#include "verify/verdict.h"

namespace isomer::verify {

// Raised when the meaning of a proof changes: older records are stale then.
inline constexpr int kProverVersion = 1;

struct Options {
  bool refute = true;            // look for a counterexample first
  bool prove = true;             // then for a proof
  bool weaker = true;            // where it is not found, for a proof up to a bound or over a field
  bool same_arithmetic = false;  // both sides claim to give the same bits: one where they do not refutes that
  bool keep_forms = false;       // fill Verdict::forms
  int trials = 40;               // sizes tried by the refuter
  uint64_t seed = 1;             // of the refuter's draws
  uint64_t queries = 60000;      // most questions to the solver in one proof
};

// Graph inputs are the same tensors on both sides when they have the same name. Extents are Dims over size symbols.
Verdict prove_equal(const ir::Graph& left, const ir::Graph& right, const Conditions& conditions,
                    const ir::OpTable& table, const Options& options = {});

}  // namespace isomer::verify
