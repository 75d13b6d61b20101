// The laws of operator records go through the prover: none is refuted, and what the matcher relies on is proved.
#include "verify/laws.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "ops/table.h"
#include "rewrite/pattern.h"
#include "verify/rule.h"

namespace isomer::verify {
namespace {

// op(?a, ?b) == op(?b, ?a) on real numbers and to real numbers, which comparisons do not give.
bool says_that_it_commutes(const rewrite::Rule& law) {
  const auto& calls = law.lhs.calls;
  return calls.size() == 1 && law.rhs.calls.size() == 1 && law.rhs.calls[0].op == calls[0].op &&
         law.inputs.size() == 2 && rewrite::commutative(*calls[0].op) && calls[0].op->name != "equal" &&
         law.types.size() == 1 && law.types[0].types.contains(DType::F32);
}

TEST(Laws, AreNotRefutedAndThatOperatorsCommuteIsProved) {
  std::vector<std::string> untyped;
  const std::vector<rewrite::Rule> laws = law_rules(ops::table(), &untyped);
  EXPECT_TRUE(untyped.empty()) << untyped.front();
  ASSERT_GE(laws.size(), 45U);
  const std::vector<RuleVerdict> verdicts = verify_rules(laws, ops::table());
  size_t proved = 0, commuting = 0;
  for (size_t i = 0; i < laws.size(); ++i) {
    const Verdict& v = verdicts[i].verdict;
    EXPECT_FALSE(v.refuted()) << laws[i].name << ": " << v.to_string();
    proved += v.proved();
    if (!says_that_it_commutes(laws[i])) continue;
    ++commuting;
    EXPECT_TRUE(v.proved()) << laws[i].name << ": " << v.to_string();
  }
  fmt::print("{} of {} laws proved for all sizes\n", proved, laws.size());
  EXPECT_GE(proved, 45U);
  EXPECT_GE(commuting, 3U);
}

}  // namespace
}  // namespace isomer::verify
