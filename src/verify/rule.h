// The door for rules: a rule is proved when every case of it (list lengths, listed attribute values) is.
#pragma once

#include <functional>

#include "rewrite/rule.h"
#include "verify/prove.h"

namespace isomer::verify {

struct RuleVerdict {
  std::string rule;
  Verdict verdict;    // of the whole: the first case that is not proved, else Proved
  std::string where;  // which case, when it has several
  size_t cases = 0;
  double seconds = 0;
};

RuleVerdict verify_rule(const rewrite::Rule& rule, const ir::OpTable& table, const Options& options = {});
// All of them, on all cores; results in the order of the rules, whatever the number of threads.
std::vector<RuleVerdict> verify_rules(const std::vector<rewrite::Rule>& rules, const ir::OpTable& table,
                                      const Options& options = {}, int threads = 0,
                                      const std::function<void(const RuleVerdict&)>& done = nullptr);

// The record of a proof, as a rule's `proof` line: nothing when it is not proved.
std::optional<rewrite::Proof> proof_of(const rewrite::Rule& rule, const RuleVerdict& verdict, const ir::OpTable& table);

}  // namespace isomer::verify
