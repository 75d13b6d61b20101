// The rule library: every rule carries a proof that fits, and a tenth of the rules, another one whenever the library
// changes, is proved anew. `isomer rules verify` proves all.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "ops/table.h"
#include "rewrite/library.h"
#include "verify/rule.h"

namespace isomer::verify {
namespace {

TEST(RuleLibraryProofs, EveryRuleHasAProofThatFits) {
  const auto library =
      rewrite::load_rules(std::string(ISOMER_SOURCE_DIR) + "/rules", ops::table(), rewrite::Trust::Proved);
  ASSERT_TRUE(library.ok()) << library.error().to_string() << "\nrun `isomer rules verify --write`";
}

TEST(RuleLibraryProofs, ATenthIsProvedAnew) {
  const auto library =
      rewrite::load_rules(std::string(ISOMER_SOURCE_DIR) + "/rules", ops::table(), rewrite::Trust::AsWritten);
  ASSERT_TRUE(library.ok()) << library.error().to_string();
  Hasher all;
  for (const rewrite::Rule& r : library->rules) all.add(rewrite::rule_hash(r));
  const uint64_t seed = all.digest().low % 10;
  std::vector<rewrite::Rule> some;
  for (const rewrite::Rule& r : library->rules)
    if (rewrite::rule_hash(r).low % 10 == seed) some.push_back(r);
  fmt::print("{} of {} rules, those whose hash ends in {}\n", some.size(), library->rules.size(), seed);
  for (const RuleVerdict& v : verify_rules(some, ops::table()))
    EXPECT_TRUE(v.verdict.proved()) << v.rule << " " << v.where << ": " << v.verdict.to_string();
}

}  // namespace
}  // namespace isomer::verify
