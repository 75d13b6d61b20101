// The search under toy costs: what it finds is decided by the costs alone, never by a clock.
#include "search/search.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <map>
#include <optional>
#include <set>

#include "base/random.h"
#include "interp/interp.h"
#include "ops/table.h"
#include "rewrite/rule.h"
#include "search/role.h"
#include "tensor/compare.h"
#include "test/unit/search/toy.h"

namespace isomer::search {
namespace {

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

// Most sizes that are drawn for a rule with windows do not fit together: it is no tidier for that.
TEST(Search, ARuleThatFewSizesFitIsAStepStill) {
  const auto all = rewrite::parse_rules(R"(
rule average-first : reassociating
  let pool = {kernel_shape=[kh, kw], strides=[sh, sw], pads=[pt, pl, pb, pr], count_include_pad=1}
  ?x : T[N, C, H, W]  ?w : T[O, C, 1, 1]
  average_pool(conv(?x, ?w)){pool...} => conv(average_pool(?x){pool...}, ?w)
  where nonnegative(pt, pl, pb, pr)
rule max-pool-of-max-pool : exact
  ?x : T[N, C, H, W]
  max_pool(max_pool(?x){kernel_shape=[a, b], strides=[1, 1], pads=[0, 0, 0, 0]})
    {kernel_shape=[c, d], strides=[sh, sw], pads=[0, 0, 0, 0]}
  => max_pool(?x){kernel_shape=[a+c-1, b+d-1], strides=[sh, sw], pads=[0, 0, 0, 0]}
)",
                                        ops::table());
  ASSERT_TRUE(all.ok());
  for (const rewrite::Rule& r : *all) EXPECT_EQ(role_of(r, ops::table()), Role::Step) << r.name;
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

// Three places, of which one gains nothing but stands on the only way that is looked at.
TEST(Search, StepsThatDoNotPayBesideTheOthersAreLeftOut) {
  const std::vector<rewrite::Rule> fold = *rewrite::parse_rules(kFold, ops::table());
  ir::GraphBuilder b(ops::table(), "dilated");
  ir::Value x = *b.input("x", {DType::F32, Shape::of({1, 4, 4, 4}), nullptr});
  const ir::Attrs dilated{{"pads", std::vector<int64_t>{2, 2, 2, 2}}, {"dilations", std::vector<int64_t>{2, 2}}};
  for (const int64_t channels : {4, 4, 5})
    x = *b.add1("conv", {x, weights(b, {channels, 4, 3, 3}, static_cast<uint64_t>(channels))}, dilated);
  b.output("y", x);
  const ir::Graph g = *std::move(b).finish();
  struct Left {
    double large = 0, small = 0;  // dilated convolutions
  };
  const auto left = [](const ir::Graph& graph) {
    Left out;
    for (const ir::Node& n : graph.nodes()) {
      if (n.op->name != "conv" || !n.attrs.get<std::vector<int64_t>>("dilations")) continue;
      ++(graph.type(n.inputs[1]).shape.values()[0] == 5 ? out.small : out.large);
    }
    return out;
  };
  const Cost cost = [&](const ir::Graph& graph) -> Expected<double> {
    return 10 + 2 * left(graph).large + 0.01 * left(graph).small;
  };
  // The place that gains nothing first, then another one.
  const Cost estimate = [&](const ir::Graph& graph) -> Expected<double> {
    return 100 + 10 * left(graph).small - left(graph).large;
  };
  Options options;
  options.width = 1;
  options.compare = [&](const ir::Graph& before, const ir::Graph& after, bool) -> Expected<Comparison> {
    const Left was = left(before), is = left(after);
    const double large = is.large - was.large, small = is.small - was.small;
    return Comparison{2 * large + 0.01 * small, 3 * std::abs(large) + 3 * std::abs(small)};
  };
  const auto found = optimise(g, ops::table(), pointers(fold), cost, estimate, options);
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(found->statistics.priced, 3U);  // the graph, the place that gains nothing, that and another one
  EXPECT_EQ(left(found->graph).large, 1);
  EXPECT_EQ(left(found->graph).small, 1);
  EXPECT_EQ(found->steps.size(), 1U);
  expect_same_function(g, found->graph, {1, 4, 4, 4});
}

// A gain of some thousandths of a model would be taken in one run and left in the next.
TEST(Search, GainsThatAreNothingBesideTheModelAreLeft) {
  const ir::Graph g = blocks(1, 3, 3);
  const std::vector<rewrite::Rule> all = rules();
  const auto convs = [&](double scale) {
    const Cost estimate = [scale](const ir::Graph& graph) -> Expected<double> { return scale * *toy_cost(graph); };
    const auto o = optimise(g, ops::table(), pointers(all), toy_cost, estimate, {});
    return o.ok() ? count(o->graph, "conv") : -1;
  };
  EXPECT_EQ(convs(1), 1);
  EXPECT_EQ(convs(1e5), 2);
}

// Six regions where nothing is to be gained stand before the one that gains; a handful of graphs may be priced.
TEST(Search, RegionsThatPromiseAGainComeFirst) {
  ir::GraphBuilder b(ops::table(), "late");
  ir::Value x = *b.input("x", {DType::F32, Shape::of({1, 4, 5, 5}), nullptr});
  for (int64_t channels = 4; channels < 10; ++channels)
    x = *b.add1("tanh", {conv(b, x, channels, channels + 1, 1, static_cast<uint64_t>(channels))});
  const ir::Value left = conv(b, x, 10, 2, 3, 1), right = conv(b, x, 10, 2, 3, 2);
  b.output("y", *b.add1("concat", {left, right}, ir::Attrs{{"axis", int64_t{1}}}));
  const ir::Graph g = *std::move(b).finish();
  const std::vector<rewrite::Rule> all = rules();
  Options options;
  options.steps = 5;
  const auto o = optimise(g, ops::table(), pointers(all), toy_cost, toy_cost, options);
  ASSERT_TRUE(o.ok());
  EXPECT_LE(o->statistics.priced, 5U);
  EXPECT_EQ(count(o->graph, "conv"), 7);
  expect_same_function(g, o->graph);
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
