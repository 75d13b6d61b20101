// The prover on rules: right families are proved for all sizes, wrong twins are refuted and never proved.
#include <gtest/gtest.h>

#include "ops/table.h"
#include "rewrite/library.h"
#include "verify/rule.h"

namespace isomer::verify {
namespace {

std::vector<rewrite::Rule> rules(const std::string& file) {
  auto library = rewrite::load_rules(std::string(ISOMER_SOURCE_DIR) + "/test/rules/" + file, ops::table(),
                                     rewrite::Trust::AsWritten);
  EXPECT_TRUE(library.ok()) << library.error().to_string();
  return library.ok() ? std::move(library->rules) : std::vector<rewrite::Rule>();
}

TEST(VerifyRules, RightFamiliesAreProvedForAllSizes) {
  const auto all = rules("right.rules");
  ASSERT_GE(all.size(), 60U);
  for (const RuleVerdict& v : verify_rules(all, ops::table())) {
    EXPECT_TRUE(v.verdict.proved()) << v.rule << ": " << v.verdict.to_string();
    EXPECT_EQ(v.verdict.proof, ProofKind::AllSizes) << v.rule;
    EXPECT_FALSE(v.verdict.basis.empty());
  }
}

TEST(VerifyRules, WrongRulesAreRefutedWithACounterexample) {
  const auto all = rules("wrong.rules");
  ASSERT_GE(all.size(), 100U);
  for (const RuleVerdict& v : verify_rules(all, ops::table())) {
    EXPECT_TRUE(v.verdict.refuted()) << v.rule << ": " << v.verdict.to_string();
    ASSERT_TRUE(v.verdict.counterexample) << v.rule;
    EXPECT_NE(v.verdict.counterexample->left, v.verdict.counterexample->right) << v.rule;
  }
}

TEST(VerifyRules, WrongRulesAreNotProvedWithoutTheRefuterEither) {
  Options options;
  options.refute = false;
  options.queries = 3000;
  for (const RuleVerdict& v : verify_rules(rules("wrong.rules"), ops::table(), options))
    EXPECT_FALSE(v.verdict.proved()) << v.rule;
}

TEST(VerifyRules, ExactMeansTheSameBits) {
  constexpr const char* kSums = R"(
rule a-sum-in-another-order : CLASS
  ?x, ?y, ?z : T[S...]
  add(add(?x, ?y), ?z) => add(?x, add(?y, ?z))
rule a-chain-of-products : CLASS
  ?x : T[M, K]  ?w : T[K, N]  ?v : T[N, P]
  matmul(matmul(?x, ?w), ?v) => matmul(?x, matmul(?w, ?v))
)";
  for (const bool exact : {true, false}) {
    std::string text = kSums;
    for (size_t at; (at = text.find("CLASS")) != std::string::npos;)
      text.replace(at, 5, exact ? "exact" : "reassociating");
    const auto all = rewrite::parse_rules(text, ops::table());
    ASSERT_TRUE(all.ok()) << all.error().to_string();
    for (const RuleVerdict& v : verify_rules(*all, ops::table())) {
      EXPECT_EQ(v.verdict.refuted(), exact) << v.rule << ": " << v.verdict.to_string();
      EXPECT_EQ(v.verdict.proved(), !exact) << v.rule << ": " << v.verdict.to_string();
      EXPECT_EQ(v.verdict.to_string().find("not the same arithmetic") != std::string::npos, exact);
    }
  }
}

// The proof takes 1 / 0 for some number; what is no number on the right only is for the refuter.
TEST(VerifyRules, WhatIsANumberStaysOne) {
  const auto all = rewrite::parse_rules(R"(
rule nothing-by-itself : reassociating
  ?x, ?y : T[S...]
  add(?x, mul(?y, 0)) => add(?x, sub(div(?x, ?y), div(?x, ?y)))
)",
                                        ops::table());
  ASSERT_TRUE(all.ok()) << all.error().to_string();
  const RuleVerdict v = verify_rule(all->front(), ops::table());
  EXPECT_TRUE(v.verdict.refuted());
  EXPECT_NE(v.verdict.to_string().find("no number"), std::string::npos) << v.verdict.to_string();
}

TEST(VerifyRules, AnswersDoNotDependOnThreads) {
  auto all = rules("right.rules");
  all.resize(12);
  const auto one = verify_rules(all, ops::table(), {}, 1), two = verify_rules(all, ops::table(), {}, 2);
  for (size_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ(one[i].verdict.to_string(), two[i].verdict.to_string());
    EXPECT_EQ(one[i].verdict.basis, two[i].verdict.basis);
    EXPECT_EQ(one[i].verdict.queries, two[i].verdict.queries);
  }
}

}  // namespace
}  // namespace isomer::verify
