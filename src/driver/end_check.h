// EndCheck: an optimised model on sets of inputs against what its original gives in double, and the rewrite that makes the
// difference where there is one.
// Invariant: the original is run once for each set, whatever is checked against it.
#pragma once

#include "driver/candidates.h"
#include "driver/inputs.h"
#include "driver/rewrite_check.h"

namespace isomer::driver {

class EndCheck {
 public:
  // On random inputs, and on those that were given. `start` is what candidates were made of, by `rules`; all have to
  // outlive the check.
  static Expected<EndCheck> make(const ir::Graph& original, const ir::Graph& start,
                                 const std::vector<const rewrite::Rule*>& rules, const Sizes& sizes,
                                 const OptimizeOptions& options);

  const InputSets& sets() const { return sets_; }

  struct Found {
    std::vector<OutputError> errors;      // of the set with the worst of them
    std::vector<OutputError> own_errors;  // of the original in floats, where the result's are above the tolerance
    std::optional<Culprit> culprit;       // the result is wrong
  };
  Expected<Found> check(Candidate& result);

 private:
  EndCheck(const ir::Graph& start, const std::vector<const rewrite::Rule*>& rules, const Sizes& sizes, double tolerance)
      : start_(start), rules_(rules), sizes_(sizes), tolerance_(tolerance) {}
  Expected<const std::vector<Tensor>*> expected(size_t set);
  // Whether what is above the tolerance is no more than rounding does to the original on this set.
  Expected<bool> is_rounding(const Candidate& result, size_t set, const std::vector<OutputError>& errors,
                             const std::vector<OutputError>& own);

  const ir::Graph& start_;
  const std::vector<const rewrite::Rule*>& rules_;
  const Sizes& sizes_;
  double tolerance_;
  ir::Graph original_;  // with its sizes
  InputSets sets_;
  std::vector<std::vector<Tensor>> expected_;  // by set, as far as it was asked
};

}  // namespace isomer::driver
