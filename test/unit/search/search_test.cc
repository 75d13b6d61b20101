// The search under toy costs: what it finds is decided by the costs alone, never by a clock.
#include "search/search.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <optional>
#include <set>

#include "base/random.h"
#include "interp/interp.h"
#include "ops/table.h"
#include "rewrite/rule.h"
#include "search/role.h"
#include "tensor/compare.h"

namespace isomer::search {
namespace {

constexpr const char* kRules = R"(
rule merge : exact
  let window = {strides=[1, 1], pads=[pt, pl, pb, pr]}
  ?x : T[N, C, H, W]  ?w : T[O, C, kh, kw]  ?v : T[P, C, kh, kw]
  [conv(?x, ?w){window...}, conv(?x, ?v){window...}]
  => split(conv(?x, concat(?w, ?v){axis=0}){window...}, [O, P]){axis=1}
  where nonnegative(pt, pl, pb, pr), constant(?w), constant(?v)
rule enlarge : reassociating
  ?x : T[N, C, H, W]  ?w : T[O, C, kh, kw]
  conv(?x, ?w){strides=[1, 1], pads=[pt, pl, pb, pr]}
  => conv(?x, pad(?w, [0, 0, 1, 1, 0, 0, 1, 1])){strides=[1, 1], pads=[pt+1, pl+1, pb+1, pr+1]}
  where nonnegative(pt, pl, pb, pr), constant(?w)
rule relu-past-split : exact
  ?x : T[N, A+B, S...]
  %a, %b = split(?x, [A, B]){axis=1}
  [relu(%a), relu(%b)] => split(relu(?x), [A, B]){axis=1}
)";

std::vector<rewrite::Rule> rules() { return *rewrite::parse_rules(kRules, ops::table()); }

std::vector<const rewrite::Rule*> pointers(const std::vector<rewrite::Rule>& rules) {
  std::vector<const rewrite::Rule*> out;
  for (const rewrite::Rule& r : rules) out.push_back(&r);
  return out;
}

ir::Value weights(ir::GraphBuilder& b, std::vector<int64_t> dims, uint64_t seed) {
  Tensor t(DType::F32, std::move(dims));
  Random random(seed);
  for (int64_t i = 0; i < t.size(); ++i) t.set_real(i, random.uniform(-1, 1));
  return b.constant(std::move(t));
}

ir::Value conv(ir::GraphBuilder& b, ir::Value x, int64_t in, int64_t out, int64_t kernel, uint64_t seed) {
  const int64_t pad = kernel / 2;
  return *b.add1("conv", {x, weights(b, {out, in, kernel, kernel}, seed)},
                 ir::Attrs{{"pads", std::vector<int64_t>{pad, pad, pad, pad}}});
}

// Blocks of two convolutions of one input, with kernels of these sizes.
ir::Graph blocks(int count, int64_t first, int64_t second) {
  ir::GraphBuilder b(ops::table(), "blocks");
  ir::Value x = *b.input("x", {DType::F32, Shape::of({1, 4, 5, 5}), nullptr});
  for (int i = 0; i < count; ++i) {
    const auto seed = static_cast<uint64_t>(2 * i);
    const ir::Value a = *b.add1("relu", {conv(b, x, 4, 2, first, seed)});
    const ir::Value c = *b.add1("relu", {conv(b, x, 4, 2, second, seed + 1)});
    x = *b.add1("concat", {a, c}, ir::Attrs{{"axis", int64_t{1}}});
    x = *b.add1("tanh", {x});
  }
  b.output("y", x);
  return *std::move(b).finish();
}

// A convolution costs 1 and a little for each tap, an element-wise node a tenth; what depends on constants is free.
Expected<double> toy_cost(const ir::Graph& g) {
  double cost = 0;
  std::vector<bool> live(g.nodes().size());
  for (uint32_t id = 0; id < g.nodes().size(); ++id) {
    const ir::Node& n = g.node(id);
    live[id] = n.op == &ir::input_op();
    for (const ir::Value& v : n.inputs) live[id] = live[id] || (!v.is_none() && live[v.node]);
    if (!live[id] || n.op == &ir::input_op() || n.op->name == "split") continue;
    if (n.op->name != "conv") {
      cost += 0.1;
      continue;
    }
    const std::vector<int64_t> taps = g.type(n.inputs[1]).shape.values();
    cost += 1 + 0.05 * static_cast<double>(taps[2] * taps[3]);
  }
  return cost;
}

Outcome search(const ir::Graph& g, const Options& options) {
  const std::vector<rewrite::Rule> all = rules();
  auto outcome = optimise(g, ops::table(), pointers(all), toy_cost, nullptr, options);
  EXPECT_TRUE(outcome.ok()) << (outcome.ok() ? "" : outcome.error().to_string());
  return *std::move(outcome);
}

int64_t count(const ir::Graph& g, std::string_view op) {
  return std::count_if(g.nodes().begin(), g.nodes().end(), [&](const ir::Node& n) { return n.op->name == op; });
}

void expect_same_function(const ir::Graph& a, const ir::Graph& b, std::vector<int64_t> dims = {1, 4, 5, 5}) {
  Tensor x(DType::F32, std::move(dims));
  Random random(3);
  for (int64_t i = 0; i < x.size(); ++i) x.set_real(i, random.uniform(-1, 1));
  const auto left = interp::run(a, ops::table(), {x}), right = interp::run(b, ops::table(), {x});
  ASSERT_TRUE(left.ok() && right.ok());
  EXPECT_TRUE(compare((*left)[0], (*right)[0], {1e-5, 1e-5}).ok());
}

TEST(Search, RolesComeFromTheRulesThemselves) {
  const std::vector<rewrite::Rule> all = rules();
  EXPECT_EQ(role_of(all[0], ops::table()), Role::Step);
  EXPECT_EQ(role_of(all[1], ops::table()), Role::Step);
  EXPECT_EQ(role_of(all[2], ops::table()), Role::Tidy);
}

TEST(Search, MergesAndTidiesUp) {
  const ir::Graph g = blocks(1, 3, 3);
  const Outcome o = search(g, {});
  EXPECT_EQ(count(o.graph, "conv"), 1);
  EXPECT_EQ(count(o.graph, "relu"), 1);
  expect_same_function(g, o.graph);
}

// As on a machine where what a kernel costs beside its arithmetic weighs most: enlarging a kernel costs 1 in 50, and merging
// after it saves nearly half.
TEST(Search, TheStandardAlphaFindsWhatAlphaOneDoesNot) {
  const ir::Graph g = blocks(1, 1, 3);
  const Cost cost = [](const ir::Graph& graph) -> Expected<double> {
    ISOMER_TRY(const double arithmetic, toy_cost(graph));
    return arithmetic + 9.0 * static_cast<double>(count(graph, "conv"));
  };
  const std::vector<rewrite::Rule> all = rules();
  Options options;
  EXPECT_EQ(options.alpha, 1.05);
  const auto relaxed = optimise(g, ops::table(), pointers(all), cost, nullptr, options);
  options.alpha = 1.0;
  const auto strict = optimise(g, ops::table(), pointers(all), cost, nullptr, options);
  ASSERT_TRUE(relaxed.ok() && strict.ok());
  EXPECT_EQ(count(strict->graph, "conv"), 2);
  EXPECT_EQ(count(relaxed->graph, "conv"), 1);
  EXPECT_LT(*cost(relaxed->graph), 0.6 * *cost(strict->graph));
  expect_same_function(g, relaxed->graph);
}

TEST(Search, RelaxedFindsWhatGreedyDoesNot) {
  const ir::Graph g = blocks(1, 1, 3);
  Options options;
  options.strategy = Strategy::Greedy;
  EXPECT_EQ(count(search(g, options).graph, "conv"), 2);
  options.strategy = Strategy::Relaxed;
  options.alpha = 1.0;
  EXPECT_EQ(count(search(g, options).graph, "conv"), 2);
  options.alpha = 1.3;
  const Outcome o = search(g, options);
  EXPECT_EQ(count(o.graph, "conv"), 1);
  expect_same_function(g, o.graph);
}

// Images of every second pixel as a batch: moves before and behind that cancel between two convolutions.
constexpr const char* kFold = R"(
rule fold : exact
  ?x : T[N, C, 2*H, 2*W]  ?w : T[O, C, kh, kw]
  conv(?x, ?w){strides=[1, 1], pads=[2*p, 2*q, 2*p, 2*q], dilations=[2, 2]}
  =>
  %pixels = transpose(reshape(?x, [N, C, H, 2, W, 2])){perm=[3, 5, 0, 1, 2, 4]}
  %y = conv(reshape(%pixels, [4*N, C, H, W]), ?w){strides=[1, 1], pads=[p, q, p, q]}
  %apart = transpose(reshape(%y, [2, 2, N, O, H+2*p-kh+1, W+2*q-kw+1])){perm=[2, 3, 4, 0, 5, 1]}
  reshape(%apart, [N, O, (H+2*p-kh+1)*2, (W+2*q-kw+1)*2])
  where nonnegative(p, q), H+2*p >= kh, W+2*q >= kw
)";

TEST(Search, PlacesThatPayOnlyTogetherAreOneRegion) {
  const std::vector<rewrite::Rule> fold = *rewrite::parse_rules(kFold, ops::table());
  EXPECT_TRUE(wraps(fold[0], ops::table()));
  for (const rewrite::Rule& r : rules()) EXPECT_FALSE(wraps(r, ops::table())) << r.name;
  ir::GraphBuilder b(ops::table(), "dilated");
  ir::Value x = *b.input("x", {DType::F32, Shape::of({1, 4, 4, 4}), nullptr});
  for (uint64_t i = 0; i < 2; ++i) {
    const ir::Attrs dilated{{"pads", std::vector<int64_t>{2, 2, 2, 2}}, {"dilations", std::vector<int64_t>{2, 2}}};
    x = *b.add1("relu", {*b.add1("conv", {x, weights(b, {4, 4, 3, 3}, i)}, dilated)});
  }
  b.output("y", x);
  const ir::Graph g = *std::move(b).finish();
  // Moves cost 3 in all, however many there are: those in the middle cancel.
  const Cost cost = [](const ir::Graph& graph) -> Expected<double> {
    double sum = count(graph, "transpose") > 0 ? 3 : 0;
    for (const ir::Node& n : graph.nodes())
      if (n.op->name == "conv") sum += n.attrs.get<std::vector<int64_t>>("dilations") ? 3 : 1;
    return sum;
  };
  const auto found = optimise(g, ops::table(), pointers(fold), cost, nullptr, {});
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(count(found->graph, "transpose"), 4);
  EXPECT_EQ(found->statistics.regions, 1U);
  expect_same_function(g, found->graph, {1, 4, 4, 4});
}

// A graph from which no other rule goes on has to be nearly as good as its parent to be priced.
TEST(Search, DeadEndsAreNotPriced) {
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

TEST(Search, NothingIsEverDearerThanTheInput) {
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
TEST(Search, WhatIsLeftIsListedWithItsReason) {
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

// By the toy's costs; `changed` of them differ, and a second look may find nothing.
Options comparing(double changed, bool found_again) {
  Options options;
  options.compare = [=](const ir::Graph& before, const ir::Graph& after, bool again) -> Expected<Comparison> {
    return Comparison{again && !found_again ? 0 : *toy_cost(after) - *toy_cost(before), changed};
  };
  return options;
}

WhyNot why_not_merged(const Outcome& outcome) {
  for (const Considered& c : outcome.considered)
    if (c.rule == "merge") return c.best[0].why;
  return WhyNot::NoTime;
}

// The cheapest of many timings is the luckiest: what is not found again is not taken.
TEST(Search, AGainMustBeThereASecondTime) {
  const ir::Graph g = blocks(1, 3, 3);
  EXPECT_FALSE(search(g, comparing(2, true)).steps.empty());
  const Outcome none = search(g, comparing(2, false));
  EXPECT_TRUE(none.steps.empty());
  EXPECT_EQ(why_not_merged(none), WhyNot::Unsure);
}

// The size of a region says nothing about the timings of what changes in it.
TEST(Search, AGainIsMeasuredByWhatChanges) {
  const ir::Graph g = blocks(1, 3, 3);
  EXPECT_FALSE(search(g, comparing(10, true)).steps.empty());
  const Outcome none = search(g, comparing(100, true));
  EXPECT_TRUE(none.steps.empty());
  EXPECT_EQ(why_not_merged(none), WhyNot::Small);
}

// Each enlarged kernel costs little beside the region: in every order there would be as many graphs as there are subsets.
TEST(Search, StepsThatLoseAreNotTriedInEveryOrder) {
  constexpr int kBranches = 6;
  ir::GraphBuilder b(ops::table(), "branches");
  const ir::Value x = *b.input("x", {DType::F32, Shape::of({1, 4, 5, 5}), nullptr});
  std::vector<ir::Value> branches;
  for (int i = 0; i < kBranches; ++i) branches.push_back(conv(b, x, 4, 2 + i, 3, static_cast<uint64_t>(i)));
  b.output("y", *b.add1("concat", branches, ir::Attrs{{"axis", int64_t{1}}}));
  const std::vector<rewrite::Rule> all = rules();
  Options options;
  options.alpha = 1.5;
  options.patience = 1000;
  const auto outcome = optimise(*std::move(b).finish(), ops::table(), {&all[1]}, toy_cost, nullptr, options);
  ASSERT_TRUE(outcome.ok());
  EXPECT_TRUE(outcome->statistics.complete);
  EXPECT_LE(outcome->statistics.priced, 6U * kBranches);
}

TEST(Search, WhatIsTakenIsNotListed) {
  for (const Considered& c : search(blocks(2, 3, 3), {}).considered) EXPECT_NE(c.rule, "merge");
}

// Branches that are added up, as some networks are trained: each sum has a match of its own, and only once the one before
// it is done.
TEST(Search, ASumOfManyBranchesIsOneStep) {
  const std::vector<rewrite::Rule> factor = *rewrite::parse_rules(R"(
rule factor : reassociating
  let window = {strides=[1, 1], pads=[pt, pl, pb, pr]}
  ?x : T[N, C, H, W]  ?w, ?v : T[O, C, kh, kw]
  add(conv(?x, ?w){window...}, conv(?x, ?v){window...}) => conv(?x, add(?w, ?v)){window...}
  where nonnegative(pt, pl, pb, pr)
)",
                                                                  ops::table());
  ir::GraphBuilder b(ops::table(), "branches");
  const ir::Value x = *b.input("x", {DType::F32, Shape::of({1, 4, 5, 5}), nullptr});
  ir::Value sum = conv(b, x, 4, 4, 3, 0);
  for (uint64_t k = 1; k < 5; ++k) sum = *b.add1("add", {sum, conv(b, x, 4, 4, 3, k)});
  b.output("y", *b.add1("relu", {sum}));
  const ir::Graph g = *std::move(b).finish();
  const std::vector<rewrite::Rule> all = rules();
  const auto o = optimise(g, ops::table(), {&factor[0], &all[0]}, toy_cost, nullptr, {});
  ASSERT_TRUE(o.ok());
  EXPECT_EQ(count(o->graph, "conv"), 1);
  EXPECT_EQ(count(o->graph, "split"), 0);
  EXPECT_EQ(o->steps.size(), 1U);
  EXPECT_EQ(o->steps.at(0).applications.size(), 4U);
  expect_same_function(g, o->graph);
}

TEST(Search, EqualRegionsAreSearchedOnce) {
  const ir::Graph g = blocks(4, 3, 3);
  const Outcome o = search(g, {});
  EXPECT_EQ(count(o.graph, "conv"), 4);
  EXPECT_GE(o.statistics.repeated, 2U);
  expect_same_function(g, o.graph);
}

TEST(Search, GraphsThatWereSeenAreNotPricedAgain) {
  Options options;
  options.alpha = 3;
  options.steps = 80;
  EXPECT_GT(search(blocks(1, 1, 3), options).statistics.duplicates, 0U);
}

TEST(Search, ThreadsDoNotChangeTheResult) {
  const ir::Graph g = blocks(2, 1, 3);
  Options options;
  options.alpha = 1.3;
  options.steps = 60;
  const Outcome one = search(g, options);
  options.threads = 3;
  const Outcome three = search(g, options);
  EXPECT_TRUE(identical(one.graph, three.graph));
  EXPECT_EQ(one.statistics.priced, three.statistics.priced);
}

TEST(Search, CutRegionsGiveTheSameFunction) {
  const ir::Graph g = blocks(3, 3, 3);
  Options options;
  options.region_nodes = 2;
  const Outcome o = search(g, options);
  EXPECT_LE(*toy_cost(o.graph), *toy_cost(search(g, {}).graph) + 1e-9);
  expect_same_function(g, o.graph);
}

// Many regions, little time: each is looked at before one of them is searched to its end.
TEST(Search, EveryRegionHasATurnBeforeAnyHasASecond) {
  ir::GraphBuilder b(ops::table(), "apart");
  std::map<int64_t, ir::Value> inputs;
  for (const int64_t size : {5, 6, 7, 8})
    inputs[size] = *b.input(fmt::format("x{}", size), {DType::F32, Shape::of({1, 4, size, size}), nullptr});
  for (const auto& [size, x] : inputs) {
    for (uint64_t k = 0; k < 4; ++k)
      b.output(fmt::format("{}.{}", size, k), conv(b, x, 4, 2, k < 2 ? 3 : 5, 10 * static_cast<uint64_t>(size) + k));
  }
  const ir::Graph g = *std::move(b).finish();
  Options options;
  options.alpha = 3;
  options.rounds = 1;
  const Outcome all = search(g, options);
  EXPECT_EQ(all.statistics.regions, 4U);
  // Enough for two regions, one after the other.
  options.steps = static_cast<int64_t>(all.statistics.priced / 2);
  const Outcome some = search(g, options);
  EXPECT_FALSE(some.statistics.complete);
  std::set<size_t> regions;
  for (const Step& s : some.steps) regions.insert(s.region);
  EXPECT_EQ(regions.size(), 4U);
}

// Prices are timings: what is level by them must not be chosen by what they happen to be.
TEST(Search, NoiseDoesNotChooseAmongGraphsThatAreLevel) {
  const ir::Graph g = blocks(3, 3, 3);
  const std::vector<rewrite::Rule> all = rules();
  std::optional<ir::Graph> first;
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    const Cost noisy = [&](const ir::Graph& graph) -> Expected<double> {
      Random random(seed + graph.content_hash().low);
      return *toy_cost(graph) * random.uniform(1, 1.004);
    };
    const auto o = optimise(g, ops::table(), pointers(all), noisy, nullptr, {});
    ASSERT_TRUE(o.ok());
    EXPECT_TRUE(o->statistics.complete);
    if (!first) first = o->graph;
    EXPECT_TRUE(equal(*first, o->graph)) << seed;
  }
  EXPECT_LT(*toy_cost(*first), *toy_cost(g));
}

TEST(Search, LimitsOfZeroReturnTheInput) {
  const ir::Graph g = blocks(1, 3, 3);
  Options options;
  options.steps = 0;
  EXPECT_TRUE(equal(search(g, options).graph, g));
  options.steps = 100;
  options.seconds = 0;
  EXPECT_TRUE(equal(search(g, options).graph, g));
  const std::atomic<bool> stop = true;
  options.seconds = 100;
  options.stop = &stop;
  const Outcome o = search(g, options);
  EXPECT_TRUE(equal(o.graph, g));
  EXPECT_FALSE(o.statistics.complete);
}

TEST(Search, StepsCanBeReplayedAndLeftOut) {
  const ir::Graph g = blocks(3, 3, 3);
  Outcome o = search(g, {});
  const std::vector<rewrite::Rule> all = rules();
  const auto again = replay(g, ops::table(), pointers(all), o.steps);
  ASSERT_TRUE(again.ok());
  EXPECT_TRUE(identical(again->graph, o.graph));
  std::vector<Step> fewer = o.steps;
  fewer.erase(fewer.begin());
  const auto some = replay(g, ops::table(), pointers(all), fewer);
  ASSERT_TRUE(some.ok()) << some.error().to_string();
  EXPECT_EQ(count(some->graph, "conv"), 4);
  expect_same_function(g, some->graph);
  o.steps[0].applications[0].nodes = {999999, 2};
  EXPECT_EQ(replay(g, ops::table(), pointers(all), o.steps).error().code, "E-trace");
}

}  // namespace
}  // namespace isomer::search
