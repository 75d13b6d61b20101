// Generation from end to end: propose finds candidate rules, verify proves them, and what is proved is written with its
// proof records. The one place where the two meet.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "propose/generate.h"

namespace isomer::driver {

struct GenerateOptions {
  propose::GenerateOptions propose;
  bool verify = true;
  // Set: keeps the rules before they are proved and the verdicts so far; a later run with the same set, size and seed
  // goes on from there.
  std::string resume;
};

// What is left of the rules, in both directions, after each stage that follows the enumeration.
struct RuleCounts {
  size_t found = 0;
  size_t not_from_library = 0;  // that do not follow from rules/ by the matcher
  size_t proved = 0, all_sizes = 0, bounded = 0, field = 0;
  size_t opened = 0;       // of them, rules with attributes that became variables
  size_t distinct = 0;     // different rules then
  size_t independent = 0;  // that do not follow from rules/ and the smaller ones among them
  double derive_seconds = 0, prove_seconds = 0, open_seconds = 0;
};

struct Unproved {
  std::string rule, reason;
  bool refuted = false;
};

struct GeneratedRules {
  propose::Generated found;
  std::vector<rewrite::Rule> rules;  // proved, with their records; all of them when nothing was verified
  std::vector<Unproved> unproved;    // dropped
  bool verified = false;             // whether the prover was asked at all
  RuleCounts counts;
  double propose_seconds = 0, verify_seconds = 0;
};

// Called while it goes on: what is being done, how far, of how much (0: unknown).
using GenerateReport = std::function<void(const std::string& stage, size_t done, size_t total)>;

Expected<GeneratedRules> generate_rules(const GenerateOptions& options, const GenerateReport& report = nullptr);

// The table of counts, a family a line, as text.
std::string counts_text(const GeneratedRules& rules);
// The rules as a .rules file with the command that made it on top.
std::string rules_text(const GeneratedRules& rules, const GenerateOptions& options);

}  // namespace isomer::driver
