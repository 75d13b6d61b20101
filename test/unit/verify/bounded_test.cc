// The weaker proofs: what they reach, what they must not, and that a rule says which it has.
#include <gtest/gtest.h>

#include <cmath>

#include "ops/table.h"
#include "rewrite/proof.h"
#include "verify/rule.h"
#include "verify/terms.h"

namespace isomer::verify {
namespace {

rewrite::Rule rule(const std::string& text) {
  auto rules = rewrite::parse_rules(text, ops::table());
  EXPECT_TRUE(rules.ok()) << rules.error().to_string();
  return rules->front();
}

RuleVerdict verdict(const std::string& text) { return verify_rule(rule(text), ops::table()); }

TEST(WeakerProofs, SymbolsAtAllSizesUpToABound) {
  const std::string text =
      "rule doubled : reassociating\n  ?x : T[N, C, H, W]  ?w : T[O, 1, 3, 3]\n"
      "  conv(add(?x, ?x), ?w){group=C, pads=[1, 1, 1, 1]}\n"
      "  => conv(?x, add(?w, ?w)){group=C, pads=[1, 1, 1, 1]}\n";
  const RuleVerdict v = verdict(text);
  ASSERT_TRUE(v.verdict.proved()) << v.verdict.to_string();
  EXPECT_EQ(v.verdict.proof, ProofKind::Bounded) << v.verdict.to_string();
  EXPECT_GE(v.verdict.bound, 3);
  // The record survives printing and parsing, and loads.
  rewrite::Rule r = rule(text);
  r.proofs = {*proof_of(r, v, ops::table())};
  EXPECT_EQ(r.proofs[0].kind, rewrite::Proof::Kind::Bounded);
  const rewrite::Rule again = rule(rewrite::print(r));
  rewrite::OperatorHashes operators(ops::table());
  const auto valid = rewrite::valid_proof(again, operators);
  ASSERT_TRUE(valid.ok());
  EXPECT_EQ((*valid)->bound, v.verdict.bound);
}

TEST(WeakerProofs, RandomElementsOfTheFieldWithAnErrorBound) {
  const RuleVerdict v = verdict(
      "rule offset : reassociating\n  ?x : T[N, C, H, W]  ?b : T[C, 1, 1]\n"
      "  average_pool(add(?x, ?b)){kernel_shape=[3, 3], pads=[1, 1, 1, 1]}\n"
      "  => add(average_pool(?x){kernel_shape=[3, 3], pads=[1, 1, 1, 1]}, ?b)\n");
  ASSERT_TRUE(v.verdict.proved()) << v.verdict.to_string();
  EXPECT_NE(v.verdict.proof, ProofKind::AllSizes);
  if (v.verdict.proof == ProofKind::Field) {
    EXPECT_GT(v.verdict.error, 0);
    EXPECT_LT(v.verdict.error, 1e-12);
  }
}

TEST(WeakerProofs, ADivisionMayBeByZero) {
  const RuleVerdict v = verdict("rule cancel : reassociating\n  ?x, ?y : T[S...]\n  div(mul(?x, ?y), ?y)\n  => ?x\n");
  EXPECT_FALSE(v.verdict.proved()) << v.verdict.to_string();
}

TEST(WeakerProofs, AReplacementThatIsNoGraphIsACounterexample) {
  rewrite::Rule r =
      rule("rule cut : exact\n  ?x : T[A, B, C]\n  relu(reshape(?x, [A*B, C]))\n  => reshape(relu(?x), [A*B, C])\n");
  for (rewrite::Call& c : r.rhs.calls)
    for (rewrite::Operand& o : c.inputs)
      if (!o.sizes.empty())
        o.sizes[1].size = rewrite::Size::binary(rewrite::Size::Kind::Sub, o.sizes[1].size, rewrite::Size(1));
  const RuleVerdict v = verify_rule(r, ops::table());
  ASSERT_TRUE(v.verdict.refuted()) << v.verdict.to_string();
  EXPECT_EQ(v.verdict.counterexample->element, "type");
}

TEST(Terms, EqualTermsAreEqualNumbers) {
  TermTable t(100000);
  const TermId x = t.input(0, 0), y = t.input(0, 1), one = t.number({1, 1});
  EXPECT_EQ(t.multiply(*t.add(x, y), *t.add(x, y)),
            t.add(*t.multiply(x, x), *t.add(*t.multiply(y, y), *t.multiply(t.number({2, 1}), *t.multiply(x, y)))));
  EXPECT_NE(t.multiply(x, *t.inverse(x)), one);
  EXPECT_EQ(t.multiply(*t.exponential(x), *t.inverse(*t.exponential(x))), one);
  EXPECT_EQ(t.exponential(*t.add(x, y)), t.multiply(*t.exponential(x), *t.exponential(y)));
  EXPECT_EQ(t.largest(*t.largest(x, y), x), t.largest(y, x));
  EXPECT_NE(t.largest(x, y), t.add(x, y));
  EXPECT_EQ(t.largest(t.literal(-HUGE_VAL), x), x);
  EXPECT_EQ(t.smallest(t.literal(HUGE_VAL), x), x);
  EXPECT_FALSE(t.add(t.literal(-HUGE_VAL), x));
}

}  // namespace
}  // namespace isomer::verify
