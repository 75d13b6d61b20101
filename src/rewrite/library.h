// RuleLibrary: the rules of a folder of .rules files (rules/ of the project), in order of file name and place. A library
// for use holds proved rules only; the tools that prove and test take rules as they stand.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "rewrite/proof.h"
#include "rewrite/rule.h"

namespace isomer::rewrite {

enum class Trust : uint8_t {
  Proved,     // every rule has a proof that fits it
  AsWritten,  // proof lines do not matter
  Judged,     // nor do they, and wrong rules are set aside
};

struct RuleLibrary {
  std::vector<Rule> rules;
  std::vector<Diagnostic> refused;  // Trust::Judged: why, by rule
  const Rule* find(std::string_view name) const;
};

// A file or a folder. Refuses the first wrong rule (unless Trust::Judged), a name that two rules have, and under
// Trust::Proved a rule whose proof is missing, stale or edited.
Expected<RuleLibrary> load_rules(const std::filesystem::path& path, const ir::OpTable& table, Trust trust);

}  // namespace isomer::rewrite
