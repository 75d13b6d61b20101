// When a proof line counts: it names the hash of the rule's text and of the operators' records as they were when the
// prover ran. Change a word of the rule or the meaning of an operator, and the proof is stale.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/hash.h"
#include "rewrite/rule.h"

namespace isomer::rewrite {

// Over the rule's text without its proofs.
Hash128 rule_hash(const Rule& rule);

// Hashes of operator records, each made once: the signature, and what the record means on its own samples (the tensor
// expression, or the graph it expands to with the records in it). An opaque kernel is known by its signature alone.
class OperatorHashes {
 public:
  explicit OperatorHashes(const ir::OpTable& table) : table_(&table) {}
  Hash128 of(const ir::OpDef& op);
  // Over all operators that the rule's sides call, by name.
  Hash128 of(const Rule& rule);

 private:
  const ir::OpTable* table_;
  std::map<std::string, Hash128> known_;
};

// The strongest proof line whose hashes hold, or why there is none (E-rule-proof at the rule or the line). Of the
// lines, the first is taken when several count.
Expected<const Proof*> valid_proof(const Rule& rule, OperatorHashes& operators);

// A .rules text with the proof lines of its rules replaced by those that `rules` (parsed from this text, in order) hold
// now. Everything else, comments and layout included, stays as it was.
std::string with_proofs(std::string_view text, const std::vector<Rule>& rules);

}  // namespace isomer::rewrite
