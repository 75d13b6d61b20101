// Verifying rule files: every rule through the prover's door, and proof lines written back where they belong.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "rewrite/library.h"

namespace isomer::driver {

struct RuleProof {
  std::string rule, file;
  uint32_t line = 0;
  std::string answer;  // proved, refuted, unknown, unsupported, refused (no rule at all)
  std::string kind;    // of a proof: all-sizes, bounded, field
  std::string text;    // the whole verdict as a sentence
  std::string where;   // which case of the rule decided, when it has several
  size_t cases = 0;
  uint64_t queries = 0;
  double seconds = 0;
  std::vector<std::string> forms;  // explain: what the two sides of each output normalise to
  bool proved() const { return answer == "proved"; }
};

struct ProofOptions {
  std::vector<std::string> names;  // only these rules; all when empty
  bool explain = false;            // fill `forms`
  bool write = false;              // bring the proof lines of the files up to date
  int threads = 0;
  std::function<void(size_t done, size_t total)> progress = nullptr;
};

// `path`: a file or folder, empty for the library. Rules are taken as they are written, whatever their proof lines say.
Expected<std::vector<RuleProof>> prove_rules(const std::string& path, const ProofOptions& options);

}  // namespace isomer::driver
