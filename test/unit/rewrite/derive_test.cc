// Ways from one side of a rule to the other, and rewrites that would read what they replace.
#include "rewrite/derive.h"

#include <gtest/gtest.h>

#include "ops/table.h"
#include "rewrite/apply.h"
#include "rewrite/instantiate.h"

namespace isomer::rewrite {
namespace {

std::vector<Rule> rules(const std::string& text) {
  auto parsed = parse_rules(text, ops::table());
  EXPECT_TRUE(parsed.ok()) << parsed.error().to_string();
  return parsed.ok() ? *std::move(parsed) : std::vector<Rule>();
}

const char* const kAssociative =
    "rule right : reassociating\n"
    "  ?x : T[N]  ?y : T[N]  ?z : T[N]\n"
    "  add(add(?x, ?y), ?z) => add(?x, add(?y, ?z))\n";

TEST(Derive, FindsAWayOfTwoStepsThroughAValueThatIsShared) {
  const Deriver deriver(rules(kAssociative), ops::table());
  const auto four = rules(
      "rule four : reassociating\n"
      "  ?a : T[N]  ?b : T[N]  ?c : T[N]  ?d : T[N]\n"
      "  add(add(add(?a, ?b), ?c), ?d) => add(?a, add(?b, add(?c, ?d)))\n"
      "rule shared : reassociating\n"
      "  ?a : T[N]  ?b : T[N]  ?c : T[N]\n"
      "  %s = add(?a, ?b)\n"
      "  mul(add(%s, ?c), %s) => mul(add(?a, add(?b, ?c)), add(?a, ?b))\n");
  const auto way = deriver.derive(four[0]);
  ASSERT_TRUE(way);
  EXPECT_EQ(way->size(), 2U);
  EXPECT_TRUE(deriver.derive(four[1]));
}

TEST(Derive, FindsNoWayWhereTheRulesGiveNone) {
  const Deriver deriver(rules(kAssociative), ops::table());
  const auto other = rules(
      "rule product : reassociating\n"
      "  ?a : T[N]  ?b : T[N]  ?c : T[N]\n"
      "  mul(mul(?a, ?b), ?c) => mul(?a, mul(?b, ?c))\n");
  EXPECT_FALSE(deriver.derive(other[0]));
}

TEST(Apply, RefusesAReplacementThatHoldsWhatItReplaces) {
  const auto twice = rules("rule twice : exact\n  ?x : T[N]\n  relu(?x) => relu(relu(?x))\n");
  Random random(1);
  const auto sizes = sample(twice[0], cases(twice[0])[0], random);
  ASSERT_TRUE(sizes);
  const auto graph = instantiate_side(twice[0], twice[0].lhs, *sizes, ops::table());
  ASSERT_TRUE(graph.ok());
  AttrHabitTable habits(ops::table());
  EditGraph edit(*graph, ops::table(), habits);
  const Hash128 before = term_hash(edit);
  const Matcher matcher({&twice[0]}, habits);
  const auto matches = matcher.all(edit);
  ASSERT_EQ(matches.size(), 1U);
  const auto done = apply(edit, twice[0], matches[0]);
  ASSERT_FALSE(done.ok());
  EXPECT_EQ(done.error().code, "E-rule-cycle");
  EXPECT_TRUE(term_hash(edit) == before);
  EXPECT_TRUE(edit.graph().ok());
}

}  // namespace
}  // namespace isomer::rewrite
