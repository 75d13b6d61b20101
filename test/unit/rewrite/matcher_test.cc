// Matching and applying rules on small graphs: where they fit, why they do not, and what they leave behind.
#include "rewrite/matcher.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "interp/interp.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "ops/table.h"
#include "rewrite/apply.h"
#include "tensor/random_fill.h"

namespace isomer::rewrite {
namespace {

constexpr std::string_view kRules = R"(
rule merge-matmul : exact
  ?x : T[M, K]  ?a : T[K, A]  ?b : T[K, B]
  [matmul(?x, ?a), matmul(?x, ?b)]
  => split(matmul(?x, concat(?a, ?b){axis=1}), [A, B]){axis=1}

rule relu-past-concat : exact
  ?x : T[S..., A]  ?y : T[S..., B]
  relu(concat(?x, ?y){axis=-1}) => concat(relu(?x), relu(?y)){axis=-1}

rule distribute : reassociating
  ?x, ?y, ?z : T[S...]
  add(mul(?x, ?z), mul(?y, ?z)) => mul(add(?x, ?y), ?z)

rule merge-conv : exact
  ?x : T[N, C, H, W]  ?w : T[O, C, kh, kw]  ?v : T[P, C, kh, kw]
  [conv(?x, ?w){strides=[sh,sw], pads=[a,b,c,d], dilations=[dh,dw]},
   conv(?x, ?v){strides=[sh,sw], pads=[a,b,c,d], dilations=[dh,dw]}]
  => split(conv(?x, concat(?w, ?v){axis=0}){strides=[sh,sw], pads=[a,b,c,d], dilations=[dh,dw]}, [O, P]){axis=1}
  where a >= 0, b >= 0, c >= 0, d >= 0, constant(?w), constant(?v)
)";

class Rewriting : public ::testing::Test {
 protected:
  Rewriting() : rules_(*parse_rules(kRules, ops::table())), habits_(ops::table()), matcher_(pointers(), habits_) {}

  std::vector<const Rule*> pointers() const {
    std::vector<const Rule*> p;
    for (const Rule& r : rules_) p.push_back(&r);
    return p;
  }

  static ir::Graph graph(std::string_view text) {
    auto g = ir::parse(text, ops::table());
    EXPECT_TRUE(g.ok()) << g.error().to_string();
    return *std::move(g);
  }

  static uint32_t node(const EditGraph& g, std::string_view name) {
    for (uint32_t i = 0; i < g.slots(); ++i)
      if (g.alive(i) && g.node(i).names[0] == name) return i;
    return UINT32_MAX;
  }

  void expect_same(const ir::Graph& a, const ir::Graph& b) {
    Random random(3);
    std::vector<Tensor> inputs;
    for (const ir::Node& n : a.inputs())
      inputs.push_back(random_tensor(n.types[0].dtype, n.types[0].shape.values(), random));
    const auto x = interp::run(a, ops::table(), inputs), y = interp::run(b, ops::table(), inputs);
    ASSERT_TRUE(x.ok() && y.ok());
    for (size_t k = 0; k < x->size(); ++k)
      for (int64_t e = 0; e < (*x)[k].size(); ++e) EXPECT_NEAR((*x)[k].real(e), (*y)[k].real(e), 1e-5);
  }

  // Applies the first match of everything until nothing fits or `limit` is reached.
  ir::Graph rewrite(const ir::Graph& g, int limit) {
    EditGraph edit(g, ops::table(), habits_);
    for (int i = 0; i < limit; ++i) {
      const auto matches = matcher_.all(edit);
      if (matches.empty()) break;
      const auto done = apply(edit, matcher_.rule(matches[0].rule), matches[0]);
      EXPECT_TRUE(done.ok()) << done.error().to_string();
    }
    auto result = edit.graph();
    EXPECT_TRUE(result.ok()) << result.error().to_string();
    EXPECT_TRUE(ir::verify(*result, ops::table()).ok());
    return *std::move(result);
  }

  std::vector<Rule> rules_;
  AttrHabitTable habits_;
  Matcher matcher_;
};

TEST_F(Rewriting, JoinsCallsThatShareAnInputAndKeepsNamesAndOrigins) {
  const ir::Graph g = graph(R"(graph @g(%x: f32[2,3], %a: f32[3,4], %b: f32[3,5]) {
    %p = matmul(%x, %a) @"first"
    %q = matmul(%x, %b) @"second"
    %r = relu(%p)
    return %r, %q
  })");
  EditGraph edit(g, ops::table(), habits_);
  ASSERT_EQ(matcher_.all(edit).size(), 1u);
  const ir::Graph after = rewrite(g, 1);
  expect_same(g, after);
  const std::string text = ir::print(after);
  EXPECT_NE(text.find("%p, %q = split("), std::string::npos) << text;
  EXPECT_NE(text.find("from(\"first\", \"second\")"), std::string::npos) << text;
}

TEST_F(Rewriting, ReadsCommutativeOperatorsBothWays) {
  const ir::Graph g = graph(R"(graph @g(%x: f32[2,3], %y: f32[2,3], %z: f32[2,3]) {
    return add(mul(%z, %x), mul(%y, %z))
  })");
  const ir::Graph after = rewrite(g, 1);
  expect_same(g, after);
  EXPECT_LT(after.nodes().size(), g.nodes().size());
}

TEST_F(Rewriting, CountsAxesFromEitherEndAndAnyRank) {
  for (const char* axis : {"2", "-1"}) {
    const ir::Graph g = graph(fmt::format(R"(graph @g(%x: f32[2,3,4], %y: f32[2,3,1]) {{
      return relu(concat(%x, %y){{axis={}}})
    }})",
                                          axis));
    EditGraph edit(g, ops::table(), habits_);
    EXPECT_EQ(matcher_.all(edit, 1).size(), 1u) << axis;
    expect_same(g, rewrite(g, 1));
  }
}

TEST_F(Rewriting, TakesAnAbsentAttributeForWhatItMeans) {
  const ir::Graph g = graph(R"(graph @g(%x: f32[1,2,4,4]) {
    %w = const f32[3,2,3,3] splat(0.5)
    %v = const f32[2,2,3,3] splat(0.25)
    %p = conv(%x, %w){strides=[1,1], kernel_shape=[3,3]}
    %q = conv(%x, %v){pads=[0,0,0,0], group=1}
    return %p, %q
  })");
  EditGraph edit(g, ops::table(), habits_);
  ASSERT_EQ(matcher_.all(edit, 3).size(), 1u);
  expect_same(g, rewrite(g, 1));
}

TEST_F(Rewriting, SaysWhichConditionFailed) {
  const ir::Graph g = graph(R"(graph @g(%x: f32[1,2,4,4], %u: f32[2,2,3,3], %m: f32[2,2,5]) {
    %w = const f32[3,2,3,3] splat(0.5)
    %p = conv(%x, %w)
    %q = conv(%x, %u)
    %r = conv(%m, %m){strides=[2]}
    return %p, %q, %r
  })");
  EditGraph edit(g, ops::table(), habits_);
  EXPECT_TRUE(matcher_.all(edit, 3).empty());
  const auto why = matcher_.explain(edit, 3, node(edit, "q"));
  ASSERT_EQ(why.size(), 1u);
  EXPECT_NE(why[0].reason.find("is no constant"), std::string::npos) << why[0].reason;
  const auto rank = matcher_.explain(edit, 3, node(edit, "r"));
  ASSERT_EQ(rank.size(), 1u);
  EXPECT_NE(rank[0].reason.find("attribute strides is [2]"), std::string::npos) << rank[0].reason;
}

TEST_F(Rewriting, LeavesValuesAloneThatAreUsedOutside) {
  const ir::Graph g = graph(R"(graph @g(%x: f32[2,3], %y: f32[2,3]) {
    %c = concat(%x, %y){axis=1}
    return relu(%c), %c
  })");
  EditGraph edit(g, ops::table(), habits_);
  EXPECT_TRUE(matcher_.all(edit).empty());
  const auto why = matcher_.explain(edit, 1);
  ASSERT_EQ(why.size(), 1u);
  EXPECT_NE(why[0].reason.find("is an output of the graph"), std::string::npos) << why[0].reason;
}

TEST_F(Rewriting, LeavesOpenSizesOpen) {
  const ir::Graph g = graph(R"(graph @g(%x: f32[batch,2,h,7]) {
    %w = const f32[3,2,3,3] splat(0.5)
    %v = const f32[4,2,3,3] splat(0.25)
    return conv(%x, %w), conv(%x, %v)
  })");
  EditGraph edit(g, ops::table(), habits_);
  ASSERT_EQ(matcher_.all(edit, 3).size(), 1u);
  const ir::Graph after = rewrite(g, 1);
  EXPECT_EQ(after.type(after.outputs()[1].value), g.type(g.outputs()[1].value));

  // Here the replacement must state the size in a list.
  const ir::Graph columns = graph(R"(graph @g(%x: f32[batch,3], %a: f32[3,k], %b: f32[3,k]) {
    return matmul(%x, %a), matmul(%x, %b)
  })");
  EditGraph open(columns, ops::table(), habits_);
  EXPECT_TRUE(matcher_.all(open, 0).empty());
  const auto why = matcher_.explain(open, 0);
  ASSERT_FALSE(why.empty());
  EXPECT_NE(why[0].reason.find("must be a number here"), std::string::npos) << why[0].reason;
}

TEST_F(Rewriting, MakesNoCycle) {
  // The second product's weights come from the first product.
  const ir::Graph g = graph(R"(graph @g(%x: f32[3,3], %a: f32[3,3]) {
    %p = matmul(%x, %a)
    %b = relu(%p)
    %q = matmul(%x, %b)
    return %q
  })");
  EditGraph edit(g, ops::table(), habits_);
  EXPECT_TRUE(matcher_.all(edit, 0).empty());
}

TEST_F(Rewriting, FindsMatchesAroundAnEditAgain) {
  const ir::Graph g = graph(R"(graph @g(%x: f32[2,3], %a: f32[3,4], %b: f32[3,5], %c: f32[3,2]) {
    %p = matmul(%x, %a)
    %q = matmul(%x, %b)
    %r = matmul(%x, %c)
    return relu(concat(%p, %q){axis=1}), %r
  })");
  EditGraph edit(g, ops::table(), habits_);
  MatchSet set(matcher_, edit);
  for (int i = 0; i < 6 && !set.matches().empty(); ++i) {
    const Match m = set.matches().back();
    const auto done = apply(edit, matcher_.rule(m.rule), m);
    ASSERT_TRUE(done.ok()) << done.error().to_string();
    set.update(edit, *done);
    const auto fresh = matcher_.all(edit);
    ASSERT_EQ(set.matches().size(), fresh.size());
    for (size_t k = 0; k < fresh.size(); ++k) EXPECT_EQ(set.matches()[k].nodes, fresh[k].nodes);
    const auto now = edit.graph();
    ASSERT_TRUE(now.ok()) << now.error().to_string();
    expect_same(g, *now);
  }
}

}  // namespace
}  // namespace isomer::rewrite
