// From a candidate to a rule: sizes that were equal by choice get symbols of their own wherever the pair still holds,
// ranks are left open where they do not matter, and sizes at which it fails are shut out by the weakest condition of a
// small vocabulary that tells them from the others. All by trying sizes over the field; the prover has the last word.
#pragma once

#include <optional>
#include <string>

#include "propose/candidate.h"
#include "propose/trial_kernels.h"

namespace isomer::propose {

struct RuleDraft {
  std::string text;    // of the rule without its head line: inputs, both sides, conditions
  std::string back;    // the other direction; empty when it is no rule, or the same one
  bool exact = false;  // both sides do the same arithmetic
  std::vector<std::string> conditions;
};

// Nothing when the pair fails at other sizes and no condition separates them.
std::optional<RuleDraft> generalise(const Candidate& candidate, const Family& family, TrialKernels& kernels,
                                    uint64_t seed);

}  // namespace isomer::propose
