// Verdict: what the prover says of a pair of graphs. Unknown is never Proved; a Refuted carries sizes and inputs on
// which the reference interpreter itself gives two different results.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tensor/dim.h"

namespace isomer::verify {

// What holds of the size symbols of two graphs.
struct Conditions {
  std::vector<Dim> zero;                         // each is 0
  std::vector<Dim> not_negative;                 // each is 0 or more
  std::vector<Dim> not_zero;                     // each is not 0; met by samples, not used by proofs
  std::vector<std::string> positive_inputs;      // graph inputs whose contents are above 0
  std::vector<std::string> not_negative_inputs;  // or 0 or more
  std::map<std::string, int64_t> at_least;       // of a symbol; 1 for the others
};

enum class ProofKind : uint8_t {
  AllSizes,  // for all sizes that meet the conditions, over the real numbers
  Bounded,   // at all sizes up to a bound, executed on symbols (bounded.h)
  Field,     // at random sizes, on random elements of a prime field, with an error bound
};
const char* name(ProofKind kind);

struct Counterexample {
  std::map<std::string, int64_t> sizes;
  uint64_t seed = 0;
  std::string inputs;  // how the inputs are drawn from the seed
  size_t output = 0;
  std::string element;  // "[0,2,1]", "shape" when the shapes differ, "type" when the right side is no graph there
  std::string left, right;
  std::string to_string() const;
};

struct Verdict {
  enum class Kind : uint8_t { Proved, Refuted, Unknown, Unsupported } kind = Kind::Unknown;
  ProofKind proof = ProofKind::AllSizes;
  std::string details;  // why not, which operator, how far, the error bound
  std::optional<Counterexample> counterexample;
  std::vector<std::string> forms;  // what each output's two sides normalise to
  std::string basis;               // hash of the operators' programs that the proof rests on
  uint64_t queries = 0;            // of the solver
  int64_t bound = 0;               // Bounded: the largest size
  double error = 0;                // Field: the chance that a pair that differs at a size that was tried passes

  bool proved() const { return kind == Kind::Proved; }
  bool refuted() const { return kind == Kind::Refuted; }
  std::string to_string() const;
};

}  // namespace isomer::verify
