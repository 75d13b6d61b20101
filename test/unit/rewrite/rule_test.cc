// Rule text: what it means, that it comes back from print, and what is refused where.
#include "rewrite/rule.h"

#include <gtest/gtest.h>

#include "interp/interp.h"
#include "ops/table.h"
#include "rewrite/instantiate.h"
#include "rewrite/proof.h"
#include "tensor/compare.h"
#include "tensor/random_fill.h"

namespace isomer::rewrite {
namespace {

Rule parse_one(std::string_view text) {
  auto rules = parse_rules(text, ops::table(), "t.rules");
  EXPECT_TRUE(rules.ok()) << rules.error().to_string();
  if (!rules.ok() || rules->empty()) return {};
  return rules->front();
}

std::string refusal(std::string_view text) {
  const auto rules = parse_rules(text, ops::table(), "t.rules");
  return rules.ok() ? "" : rules.error().to_string();
}

constexpr std::string_view kMergeMatmul = R"(
rule merge-matmul : exact
  ?x : T[S..., M, K]   ?a : T[K, A]   ?b : T[K, B]
  [matmul(?x, ?a), matmul(?x, ?b)]
  => split(matmul(?x, concat(?a, ?b){axis=1}), [A, B]){axis=-1}
)";

constexpr std::string_view kEnlarge = R"(
rule enlarge-kernel : reassociating   # a kernel with a border of zeros
  ?x : T[N, C, H, W]
  ?w : T[O, C, kh, kw]
  conv(?x, ?w){strides=[sh, sw], pads=[p0, p1, p2, p3]}
  =>
  %big = pad(?w, [0, 0, 1, 1, 0, 0, 1, 1])
  conv(?x, %big){strides=[sh, sw], pads=[p0+1, p1+1, p2+1, p3+1]}
  where p0 >= 0, p1 >= 0, p2 >= 0, p3 >= 0, constant(?w)
)";

TEST(RuleText, ComesBackFromPrint) {
  for (const std::string_view text : {kMergeMatmul, kEnlarge}) {
    const Rule r = parse_one(text);
    const std::string printed = print(r);
    EXPECT_EQ(print(parse_one(printed)), printed);
  }
}

TEST(RuleText, InstancesAgreeWhenRun) {
  for (const std::string_view text : {kMergeMatmul, kEnlarge}) {
    const Rule r = parse_one(text);
    Random random(7);
    int done = 0;
    for (const Bindings& c : cases(r)) {
      for (int i = 0; i < 20; ++i) {
        const auto b = sample(r, c, random);
        ASSERT_TRUE(b);
        const auto instance = instantiate(r, *b, ops::table());
        if (!instance.ok()) continue;
        std::vector<Tensor> inputs;
        for (const ir::Node& n : instance->lhs.inputs())
          inputs.push_back(random_tensor(n.types[0].dtype, n.types[0].shape.values(), random));
        const auto l = interp::run(instance->lhs, ops::table(), inputs),
                   q = interp::run(instance->rhs, ops::table(), inputs);
        ASSERT_TRUE(l.ok() && q.ok());
        for (size_t k = 0; k < l->size(); ++k)
          for (int64_t e = 0; e < (*l)[k].size(); ++e) EXPECT_NEAR((*l)[k].real(e), (*q)[k].real(e), 1e-5);
        ++done;
      }
    }
    EXPECT_GT(done, 10);
  }
}

TEST(RuleText, LeavesSizesOpenWhenAsked) {
  const Rule r = parse_one(kMergeMatmul);
  const auto lhs = instantiate_side(r, r.lhs, cases(r)[1], ops::table());
  ASSERT_TRUE(lhs.ok()) << lhs.error().to_string();
  EXPECT_EQ(lhs->type(lhs->outputs()[1].value).to_string(), "f32[S_0,M,B]");
}

TEST(RuleText, BindsFactoredSizesInAnOrderThatWorks) {
  const Rule r = parse_one(R"(
rule grouped : exact
  ?x : T[N, G*C, H, W]  ?w : T[G*O, C, kh, kw]
  relu(conv(?x, ?w){group=G}) => relu(conv(?x, ?w){group=G})
)");
  std::vector<std::string> order;
  for (const Equation& e : r.binding)
    if (e.solves) order.push_back(r.symbols[*e.solves].name);
  EXPECT_EQ(order.size(), r.symbols.size());
}

TEST(RuleText, RefusesWithPlaceAndReason) {
  const std::string head = "rule r : exact\n  ?x : T[N, C]\n";
  EXPECT_EQ(refusal(head + "  relo(?x) => ?x"),
            "t.rules:3:3: error[E-unknown-operator]: there is no operator 'relo'; `isomer ops` lists them");
  EXPECT_EQ(refusal(head + "  softmax(?x){axes=1} => ?x"),
            "t.rules:3:15: error[E-rule-attribute]: softmax has no attribute 'axes'; it has: axis");
  EXPECT_EQ(refusal(head + "  relu(?x) => add(?x, ?y)"),
            "t.rules:3:23: error[E-rule-unbound]: ?y is no input of rule 'r'; declare it before the pattern, as in "
            "\"?y : T[N, C]\"");
  EXPECT_EQ(refusal(head + "  relu(?x) => reshape(?x, [N, D])"),
            "t.rules:3:31: error[E-rule-unbound]: size 'D' is not bound by the pattern of rule 'r'");
  EXPECT_NE(refusal(head + "  relu(?x) => transpose(?x){perm=[0,1,2]}").find("E-rule-type"), std::string::npos);
  EXPECT_NE(refusal(head + "  relu(?x) => transpose(?x){perm=[1,0]}").find("E-rule-type"), std::string::npos);
  EXPECT_NE(refusal(head + "  relu(?x) => relu(?x, ?x)").find("relu takes 1 operands, found 2"), std::string::npos);
  EXPECT_NE(refusal(head + "  relu(?x) => ?x\nrule r : exact ?x : T[N] relu(?x) => ?x").find("two rules are named"),
            std::string::npos);
  EXPECT_NE(refusal("rule r : exact ?x : T[A*B] relu(?x) => relu(?x)").find("E-rule-unbound"), std::string::npos);
  EXPECT_NE(refusal(head + "  ?z : T[N]\n  relu(?x) => relu(?x)").find("does not use ?z"), std::string::npos);
  EXPECT_NE(refusal(head + "  relu(?x) => relu(?x) where N < M").find("size 'M' is not bound"), std::string::npos);
  EXPECT_NE(refusal(head + "  relu(?x) => relu(?x) where N == 2, N == 3").find("no sizes meet"), std::string::npos);
  EXPECT_NE(refusal(head + "  leaky_relu(?x){alpha=?a} => leaky_relu(?x){alpha=?b}").find("attribute 'b'"),
            std::string::npos);
  EXPECT_NE(refusal(head + "  [relu(?x), relu(?x)] => relu(?x)").find("E-"), std::string::npos);
}

TEST(RuleText, NumbersThatOneSingleFloatStandsForAreRefused) {
  const auto text = [](const char* a, const char* b) {
    return std::string("rule r : exact\n ?x : T[A]\n add(mul(?x, ") + a + "), " + b + ") => ?x\n";
  };
  EXPECT_NE(refusal(text("1.00000001", "2")).find("cannot tell 1.00000001 from 1"), std::string::npos);
  EXPECT_NE(refusal(text("0.1", "0.10000000000001")).find("E-rule-type"), std::string::npos);
  EXPECT_EQ(refusal(text("0.7978845608", "0.044715")), "");
}

TEST(RuleText, AWrongRuleSaysNothingOfTheOthers) {
  std::vector<Diagnostic> refused;
  const auto rules = parse_rules(R"(nonsense before
rule wrong-operator : exact
  ?x : T[A]
  no_such_thing(?x) => ?x
rule right : exact
  ?x : T[A]
  neg(neg(?x)) => ?x
rule right : exact
  ?x : T[A]
  relu(relu(?x)) => relu(?x)
rule other-shapes : exact
  ?x : T[A, B]
  reduce_sum(?x, [1]){keepdims=0} => neg(?x)
)",
                                 ops::table(), "t.rules", "", &refused);
  ASSERT_TRUE(rules.ok());
  ASSERT_EQ(rules->size(), 1U);
  EXPECT_EQ(rules->front().name, "right");
  ASSERT_EQ(refused.size(), 4U);
  EXPECT_EQ(refused[1].code, "E-unknown-operator");
  EXPECT_EQ(refused[1].where.line, 4U);
  EXPECT_EQ(refused[2].code, "E-duplicate-name");
  EXPECT_EQ(refused[3].code, "E-rule-type");
}

TEST(RuleText, ProofsCountWhileRuleAndOperatorsStay) {
  std::vector<Rule> rules = *parse_rules(kEnlarge, ops::table(), "t.rules");
  OperatorHashes operators(ops::table());
  EXPECT_FALSE(valid_proof(rules[0], operators).ok());
  Proof p;
  p.rule = rule_hash(rules[0]).hex();
  p.operators = operators.of(rules[0]).hex();
  p.prover = "1";
  rules[0].proofs = {p};
  const std::string text = with_proofs(kEnlarge, rules);
  EXPECT_NE(text.find("# a kernel with a border of zeros"), std::string::npos);
  const Rule proved = parse_one(text);
  EXPECT_TRUE(valid_proof(proved, operators).ok());
  EXPECT_EQ(with_proofs(text, {proved}), text);

  const auto changed =
      valid_proof(parse_one("rule x : exact ?x : T[N] relu(?x) => relu(?x)\n  " + to_string(p)), operators);
  ASSERT_FALSE(changed.ok());
  EXPECT_NE(changed.error().message.find("its text has changed"), std::string::npos);
  Rule stale = proved;
  stale.proofs[0].operators = std::string(32, '0');
  const auto old = valid_proof(stale, operators);
  ASSERT_FALSE(old.ok());
  EXPECT_NE(old.error().message.find("stale"), std::string::npos);
}

TEST(RuleText, RealNumbersComeFromScalarConstants) {
  const Rule r = parse_one(R"(
rule shift : exact
  real ?e
  ?x : T[N]
  sub(add(?x, ?e), ?e) => sub(add(?x, ?e), ?e)
)");
  EXPECT_EQ(print(parse_one(print(r))), print(r));
  EXPECT_NE(refusal("rule r : exact real ?e ?x : T[N] relu(?x) => relu(?x)").find("does not use ?e"),
            std::string::npos);
}

}  // namespace
}  // namespace isomer::rewrite
