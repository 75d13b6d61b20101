// Recollection: what the store of kernel times remembers of whole searches: what the same question about the same model
// came to, so that the next run makes those steps again without searching, and what checking and timing the result came to.
// Invariant: a question has all in it that decides the answer, the clock apart. No question (a model that is compiled in
// part, a search that was not asked for) has no answer, and none is kept.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cost/pricer.h"
#include "driver/inputs.h"
#include "driver/optimize.h"
#include "driver/verdict.h"

namespace isomer::driver {

// All that is given has to outlive it.
class Recollection {
 public:
  Recollection(const ir::Graph& original, const OptimizeOptions& options, cost::Pricer& pricer)
      : original_(original), options_(options), pricer_(pricer) {}

  // From now on it is about a search that begins with `out.start`.
  Expected<void> ask(const Optimized& out, const std::vector<const rewrite::Rule*>& rules);
  // Steps, labels and what was considered, as an equal search found them; false where none is known.
  bool recall(Optimized& out, const std::vector<const rewrite::Rule*>& rules) const;
  // What came of checking and timing the result of such a search on these inputs.
  std::optional<Verdict> verdict(const InputSets& sets) const;
  void remember(const Optimized& out, const InputSets& sets) const;

 private:
  std::string verdict_question(const InputSets& sets) const;

  const ir::Graph& original_;
  const OptimizeOptions& options_;
  cost::Pricer& pricer_;
  std::string question_;
};

}  // namespace isomer::driver
