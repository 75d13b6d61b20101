// Pruning by the matcher: what follows from other rules goes, one of a pair of directions stands for both, and nothing of
// rules/generated.rules follows from the files that were written by hand.
#include "driver/prune_rules.h"

#include <gtest/gtest.h>

#include "driver/open_attributes.h"
#include "ops/table.h"
#include "rewrite/library.h"

namespace isomer::driver {
namespace {

std::vector<rewrite::Rule> parsed(const std::string& text) {
  auto rules = rewrite::parse_rules(text, ops::table());
  EXPECT_TRUE(rules.ok()) << rules.error().to_string();
  return rules.ok() ? *std::move(rules) : std::vector<rewrite::Rule>{};
}

std::vector<std::string> names(const std::vector<rewrite::Rule>& rules) {
  std::vector<std::string> out;
  for (const rewrite::Rule& r : rules) out.push_back(r.name);
  return out;
}

TEST(PruneRules, WhatFollowsFromSmallerRulesGoes) {
  const auto rules = parsed(
      "rule thrice : exact\n  ?x : T[S...]\n  relu(relu(relu(?x)))\n  => relu(?x)\n"
      "rule twice : exact\n  ?x : T[S...]\n  relu(relu(?x))\n  => relu(?x)\n"
      "rule twice-back : exact\n  ?x : T[S...]\n  relu(?x)\n  => relu(relu(?x))\n"
      "rule other : exact\n  ?x : T[A, B]\n  transpose(transpose(?x){perm=[1, 0]}){perm=[1, 0]}\n  => ?x\n");
  EXPECT_EQ(names(independent(rules, {}, 2)), (std::vector<std::string>{"twice", "twice-back", "other"}));
  EXPECT_EQ(names(not_derivable(rules, {rules[1]}, 1)), (std::vector<std::string>{"other"}));
}

TEST(PruneRules, NoGeneratedRuleFollowsFromTheOtherFiles) {
  const auto library = rewrite::load_rules(ISOMER_SOURCE_DIR "/rules", ops::table(), rewrite::Trust::Proved);
  ASSERT_TRUE(library.ok()) << library.error().to_string();
  std::vector<rewrite::Rule> generated, others;
  for (const rewrite::Rule& r : library->rules) (r.family == "generated" ? generated : others).push_back(r);
  ASSERT_GE(generated.size(), 20U);
  EXPECT_EQ(names(not_derivable(generated, others, 2)), names(generated));
}

TEST(OpenAttributes, NumbersBecomeNamesWhereTheProofAllows) {
  auto rules = parsed(
      "rule sum : reassociating\n  ?x : T[N, C, H, W]  ?w : T[O, C, 3, 3]  ?v : T[O, C, 3, 3]\n"
      "  add(conv(?x, ?w){pads=[1, 1, 1, 1], strides=[2, 2]}, conv(?x, ?v){pads=[1, 1, 1, 1], strides=[2, 2]})\n"
      "  => conv(?x, add(?w, ?v)){pads=[1, 1, 1, 1], strides=[2, 2]}\n"
      "rule centred : exact\n  ?x : T[N, C, H, W]  ?w : T[O, C, 1, 1]\n"
      "  conv(?x, pad(?w, [0, 0, 1, 1, 0, 0, 1, 1])){pads=[1, 1, 1, 1]}\n  => conv(?x, ?w)\n");
  ASSERT_EQ(rules.size(), 2U);
  const OpenedRule sum = open_attributes(rules[0]);
  EXPECT_TRUE(sum.opened);
  const std::string text = rewrite::print(sum.rule);
  EXPECT_NE(text.find("pads=[pt, pl, pb, pr]"), std::string::npos) << text;
  EXPECT_NE(text.find("strides=[sh, sw]"), std::string::npos) << text;
  EXPECT_EQ(sum.rule.proofs.size(), 1U);
  // Pads other than those that centre the kernel give another function.
  EXPECT_FALSE(open_attributes(rules[1]).opened);
}

}  // namespace
}  // namespace isomer::driver
