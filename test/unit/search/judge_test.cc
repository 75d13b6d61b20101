// What the search prices, what it takes of that, and what it says about the rest.
#include "search/judge.h"

#include "test/unit/search/toy.h"

namespace isomer::search {
namespace {

TEST(Judge, DeadEndsAreNotPriced) {
  const std::vector<rewrite::Rule> all = rules();
  const Cost estimate = [](const ir::Graph& graph) -> Expected<double> {
    double taps = 1;
    for (const ir::Node& n : graph.nodes())
      if (n.op->name == "conv") taps += 0.05 * static_cast<double>(graph.type(n.inputs[1]).shape.values()[2]);
    return taps;
  };
  Options options;
  options.dead_end = 1.05;
  const auto alone = [&](int64_t kernels) {
    ir::GraphBuilder b(ops::table(), "alone");
    const ir::Value x = *b.input("x", {DType::F32, Shape::of({1, 4, 5, 5}), nullptr});
    for (int64_t k = 0; k < kernels; ++k)
      b.output(std::to_string(k), conv(b, x, 4, 2, 1 + 2 * k, static_cast<uint64_t>(k)));
    return optimise(*std::move(b).finish(), ops::table(), pointers(all), toy_cost, estimate, options);
  };
  EXPECT_EQ(alone(1)->statistics.priced, 0U);  // enlarging leads nowhere: the region need not be priced either
  EXPECT_GT(alone(2)->statistics.priced, 1U);  // here to two kernels of one size
}

TEST(Judge, NothingIsEverDearerThanTheInput) {
  const ir::Graph g = blocks(1, 3, 5);
  const Cost expensive_to_merge = [](const ir::Graph& graph) -> Expected<double> {
    return 10.0 - static_cast<double>(count(graph, "conv"));
  };
  const std::vector<rewrite::Rule> all = rules();
  Options options;
  options.alpha = 2;
  options.steps = 60;
  const auto o = optimise(g, ops::table(), pointers(all), expensive_to_merge, nullptr, options);
  ASSERT_TRUE(o.ok());
  EXPECT_TRUE(o->steps.empty());
  EXPECT_TRUE(equal(o->graph, g));
}

// A user who gets no rewrite is told what was looked at.
TEST(Judge, WhatIsLeftIsListedWithItsReason) {
  const std::vector<rewrite::Rule> all = rules();
  const auto merge_of = [&](const Cost& price, const Cost& estimate, const Options& options) {
    const auto o = optimise(blocks(3, 3, 3), ops::table(), {&all[0]}, price, estimate, options);
    EXPECT_TRUE(o.ok() && o->steps.empty() && o->considered.size() == 1);
    return o->considered.at(0);
  };
  const auto convs = [](double each, double whole) {
    return [=](const ir::Graph& g) -> Expected<double> { return whole + each * static_cast<double>(count(g, "conv")); };
  };
  const Considered slower = merge_of(convs(-1, 20), nullptr, {});
  EXPECT_EQ(slower.rule, "merge");
  EXPECT_EQ(slower.places, 3U);
  EXPECT_EQ(slower.regions, 3U);
  EXPECT_EQ(slower.best[0].why, WhyNot::Slower);
  EXPECT_GT(slower.best[0].best, slower.best[0].before);
  EXPECT_EQ(slower.best[0].nodes.size(), 2U);
  EXPECT_EQ(merge_of(convs(0, 1), nullptr, {}).best[0].why, WhyNot::Same);
  EXPECT_EQ(merge_of(convs(1, 200), nullptr, {}).best[0].why, WhyNot::Small);
  EXPECT_EQ(merge_of(convs(1, 0), convs(-1, 7), {}).best[0].why, WhyNot::Doubtful);
  Options none;
  none.steps = 1;
  EXPECT_EQ(merge_of(convs(1, 0), nullptr, none).best[0].why, WhyNot::NoTime);
  EXPECT_EQ(merge_of([](const ir::Graph&) -> Expected<double> { return Diagnostic("E-op", "none"); }, nullptr, {})
                .best[0]
                .why,
            WhyNot::NoPrice);
}

// By the toy's costs; `changed` of them differ, and later looks find these parts of the difference.
Options comparing(double changed, double second = 1, double third = 1) {
  Options options;
  options.compare = [=](const ir::Graph& before, const ir::Graph& after, int look) -> Expected<Comparison> {
    const double part = look == 1 ? 1 : look == 2 ? second : third;
    return Comparison{part * (*toy_cost(after) - *toy_cost(before)), changed};
  };
  return options;
}

WhyNot why_not_merged(const Outcome& outcome) {
  for (const Considered& c : outcome.considered)
    if (c.rule == "merge") return c.best[0].why;
  return WhyNot::NoTime;
}

// The cheapest of many timings is the luckiest: what is not found again is not taken.
TEST(Judge, AGainMustBeThereASecondTime) {
  const ir::Graph g = blocks(1, 3, 3);
  EXPECT_FALSE(search(g, comparing(2)).steps.empty());
  const Outcome none = search(g, comparing(2, 0));
  EXPECT_TRUE(none.steps.empty());
  EXPECT_EQ(why_not_merged(none), WhyNot::Unsure);
}

// Of 10 that change the merge gains 1.5: a second look that sees some of it, and too little, is not the last word.
TEST(Judge, AThirdLookDecidesWhereTheSecondIsUndecided) {
  const ir::Graph g = blocks(1, 3, 3);
  EXPECT_FALSE(search(g, comparing(10, 0.3, 1)).steps.empty());
  EXPECT_TRUE(search(g, comparing(10, 0.3, 0.3)).steps.empty());
  EXPECT_TRUE(search(g, comparing(10, -0.1, 5)).steps.empty());
}

// The size of a region says nothing about the timings of what changes in it.
TEST(Judge, AGainIsMeasuredByWhatChanges) {
  const ir::Graph g = blocks(1, 3, 3);
  EXPECT_FALSE(search(g, comparing(10)).steps.empty());
  const Outcome none = search(g, comparing(100));
  EXPECT_TRUE(none.steps.empty());
  EXPECT_EQ(why_not_merged(none), WhyNot::Small);
}

// Each enlarged kernel costs little beside the region: in every order there would be as many graphs as there are subsets, and no
// limit would leave time for others.
TEST(Judge, StepsThatLoseAreNotTriedInEveryOrder) {
  const std::vector<rewrite::Rule> both = *rewrite::parse_rules(R"(
rule wide : reassociating
  ?x : T[N, C, H, W]  ?w : T[O, C, kh, kw]
  conv(?x, ?w){strides=[1, 1], pads=[pt, pl, pb, pr]}
  => conv(?x, pad(?w, [0, 0, 0, 1, 0, 0, 0, 1])){strides=[1, 1], pads=[pt, pl+1, pb, pr+1]}
  where nonnegative(pt, pl, pb, pr), constant(?w)
rule high : reassociating
  ?x : T[N, C, H, W]  ?w : T[O, C, kh, kw]
  conv(?x, ?w){strides=[1, 1], pads=[pt, pl, pb, pr]}
  => conv(?x, pad(?w, [0, 0, 1, 0, 0, 0, 1, 0])){strides=[1, 1], pads=[pt+1, pl, pb+1, pr]}
  where nonnegative(pt, pl, pb, pr), constant(?w)
)",
                                                                ops::table());
  ir::GraphBuilder b(ops::table(), "branches");
  const ir::Value x = *b.input("x", {DType::F32, Shape::of({1, 4, 5, 5}), nullptr});
  std::vector<ir::Value> branches;
  for (int i = 0; i < 5; ++i) branches.push_back(conv(b, x, 4, 2 + i, 3, static_cast<uint64_t>(i)));
  b.output("y", *b.add1("concat", branches, ir::Attrs{{"axis", int64_t{1}}}));
  Options options;
  options.alpha = 2;
  options.patience = 1000;
  const auto outcome = optimise(*std::move(b).finish(), ops::table(), pointers(both), toy_cost, nullptr, options);
  ASSERT_TRUE(outcome.ok());
  EXPECT_TRUE(outcome->statistics.complete) << outcome->statistics.priced << " graphs were priced";
}

TEST(Judge, WhatIsTakenIsNotListed) {
  for (const Considered& c : search(blocks(2, 3, 3), {}).considered) EXPECT_NE(c.rule, "merge");
}

}  // namespace
}  // namespace isomer::search
