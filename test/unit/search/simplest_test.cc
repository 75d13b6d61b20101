// The simplest form under toy costs: everything that may be joined, in the order of the model.
#include <gtest/gtest.h>

#include "ir/text.h"
#include "passes/manager.h"
#include "search/search.h"
#include "test/unit/passes/before_after.h"
#include "test/unit/search/toy.h"

namespace isomer::search {
namespace {

// Merging is level: a search leaves it, and simplifying takes it, unless it costs more, makes more kernels or copies.
TEST(Simplest, SimplifyingJoinsWhatIsLevel) {
  const ir::Graph g = blocks(2, 3, 3);
  const std::vector<rewrite::Rule> all = rules();
  const auto convs = [&](bool simplify, double each, int64_t kernels, int64_t moves = 0) -> int64_t {
    // Each convolution less costs so much, of ten.
    const Cost cost = [each](const ir::Graph& graph) -> Expected<double> { return 10 - each * count(graph, "conv"); };
    Options options;
    options.simplify = simplify;
    options.compare = [&](const ir::Graph& before, const ir::Graph& after, int) -> Expected<Comparison> {
      return Comparison{*cost(after) - *cost(before), 10, kernels, moves};
    };
    const auto o = optimise(g, ops::table(), pointers(all), cost, cost, options);
    EXPECT_TRUE(o.ok());
    if (!o.ok()) return -1;
    testing::expect_same_function(o->graph, g);
    return count(o->graph, "conv");
  };
  EXPECT_EQ(convs(false, 0, -1), 4);
  EXPECT_EQ(convs(true, 0, -1), 2);
  EXPECT_EQ(convs(true, 0.05, 0), 2);
  EXPECT_EQ(convs(true, 0, 1), 4);
  EXPECT_EQ(convs(true, 0, -1, 1), 4);
  EXPECT_EQ(convs(true, 0, -2, 1), 2);
  EXPECT_EQ(convs(true, 0.5, -1), 4);
}

// A step that joins nothing is taken where what it makes costs half of what it takes away, or less, with no more kernels; or a fifth less
// where timed kernels say so twice.
TEST(Simplest, WhatPaysByItselfIsTaken) {
  const ir::Graph g = blocks(1, 3, 3);
  const std::vector<rewrite::Rule> all = rules();
  const auto widest = [](const ir::Graph& graph) {
    int64_t width = 0;
    for (const ir::Node& n : graph.nodes())
      if (n.op->name == "conv") width = std::max(width, graph.type(n.inputs[1]).shape[3].value());
    return width;
  };
  using Timed = std::function<double(int look)>;  // what is saved
  const auto found = [&](double enlarged, int64_t kernels, const Timed& timed = nullptr) -> int64_t {
    const Cost cost = [enlarged](const ir::Graph& graph) -> Expected<double> {
      double sum = 0;
      for (const ir::Node& n : graph.nodes())
        if (n.op->name == "conv") sum += graph.type(n.inputs[1]).shape[3].value() == 3 ? 1 : enlarged;
      return sum;
    };
    Options options;
    options.simplify = true;
    options.compare = [&](const ir::Graph& before, const ir::Graph& after, int) -> Expected<Comparison> {
      return Comparison{*cost(after) - *cost(before), *cost(before), kernels};
    };
    if (timed)
      options.timed = [&](const ir::Graph&, const ir::Graph&, int look) -> Expected<Comparison> {
        return Comparison{-timed(look), 1, kernels};
      };
    const auto enlarge = std::find_if(all.begin(), all.end(), [](const auto& r) { return r.name == "enlarge"; });
    const auto o = optimise(g, ops::table(), {&*enlarge}, cost, cost, options);
    EXPECT_TRUE(o.ok());
    if (!o.ok()) return -1;
    testing::expect_same_function(o->graph, g);
    return widest(o->graph);
  };
  EXPECT_EQ(found(0.4, 0), 5);
  EXPECT_EQ(found(0.4, 1), 3);
  EXPECT_EQ(found(0.6, 0), 3);
  const auto always = [](double saved) { return [saved](int) { return saved; }; };
  EXPECT_EQ(found(0.6, 1, always(0.3)), 5);
  EXPECT_EQ(found(0.6, 1, always(0.15)), 5);
  EXPECT_EQ(found(0.6, 1, always(0.05)), 3);
  EXPECT_EQ(found(0.4, 1, always(0.05)), 3);
  EXPECT_EQ(found(0.85, 1, always(0.3)), 3);
  EXPECT_EQ(found(0.6, 1, [](int look) { return look == 1 ? 0.3 : 0.0; }), 3);
}

// Equal regions count together, also those that are explored anew since a neighbour changed: each alone saves less than what is something
// beside the model.
TEST(Simplest, WhatPaysInEqualRegionsCountsTogether) {
  ir::GraphBuilder b(ops::table(), "groups");
  ir::Value x = *b.input("x", {DType::F32, Shape::of({1, 8, 5, 5}), nullptr});
  for (uint64_t i = 0; i < 5; ++i) {
    const ir::Value weight = weights(b, {8, 4, 3, 3}, i);
    const ir::Attrs attrs{{"pads", std::vector<int64_t>{1, 1, 1, 1}}, {"group", int64_t{2}}};
    x = *b.add1("relu", {*b.add1("conv", {conv(b, x, 8, 8, 1, 10 + i), weight}, attrs)});
  }
  b.output("y", x);
  const ir::Graph g = *std::move(b).finish();
  const auto rules = rewrite::parse_rules(R"(
rule merge-groups : reassociating
  let window = {strides=[1, 1], pads=[pt, pl, pb, pr]}
  ?x : T[N, 2*C, H, W]  ?w : T[2*O, C, kh, kw]
  conv(?x, ?w){window..., group=2}
  =>
  %w0, %w1 = split(?w, [O, O]){axis=0}
  %zero = constant_of_shape([O, C, kh, kw]){value=T 0}
  %blocks = concat(concat(%w0, %zero){axis=1}, concat(%zero, %w1){axis=1}){axis=0}
  conv(?x, %blocks){window..., group=1}
  where nonnegative(pt, pl, pb, pr), constant(?w)
)",
                                          ops::table());
  ASSERT_TRUE(rules.ok()) << rules.error().to_string();
  const auto groups = [](const ir::Graph& graph) {
    int64_t sum = 0;
    for (const ir::Node& n : graph.nodes())
      if (const int64_t* group = n.op->name == "conv" ? n.attrs.get<int64_t>("group") : nullptr) sum += *group == 2;
    return sum;
  };
  // What is grouped costs three more.
  const Cost cost = [&](const ir::Graph& graph) -> Expected<double> {
    return 3.0 * static_cast<double>(groups(graph)) + 7.0 * static_cast<double>(count(graph, "conv"));
  };
  const double model = *cost(g);
  const auto left = [&](double least) -> int64_t {
    const Cost estimate = [&, least](const ir::Graph& graph) -> Expected<double> {
      return *cost(graph) * (count(graph, "conv") == 10 ? least / (kLeastGain * model) : 1);
    };
    Options options;
    options.simplify = true;
    options.compare = [&](const ir::Graph& before, const ir::Graph& after, int) -> Expected<Comparison> {
      return Comparison{*cost(after) - *cost(before), *cost(before), 1};
    };
    options.timed = options.compare;
    const auto o = optimise(g, ops::table(), pointers(*rules), cost, estimate, options);
    EXPECT_TRUE(o.ok());
    if (!o.ok()) return -1;
    testing::expect_same_function(o->graph, g);
    return groups(o->graph);
  };
  EXPECT_EQ(left(1), 0);
  EXPECT_EQ(left(7), 1);  // the last region, which nothing follows, is by itself
  EXPECT_EQ(left(30), 5);
}

// The steps of a recurrent network share their weights: as rows of one product they lie as the sequence does, so that nothing is copied.
TEST(Simplest, StepsOfASequenceBecomeTheSequence) {
  const ir::Graph g = testing::graph_of(R"((%x: f32[5,1,3]) {
    %w = const f32[3,2] [1,2,3,4,5,6]
    %a, %b, %c, %d, %e = split(%x){axis=0, num_outputs=5}
    %p = matmul(reshape(%a, [1,3]), %w)
    %q = matmul(reshape(%b, [1,3]), %w)
    %r = matmul(reshape(%c, [1,3]), %w)
    %s = matmul(reshape(%d, [1,3]), %w)
    %t = matmul(reshape(%e, [1,3]), %w)
    return "y"=add(mul(add(mul(add(%p, %q), %r), %s), %t), %p) })");
  const auto rules = rewrite::parse_rules(R"(
rule merge-rows : exact
  ?x : T[K, N]  ?a : T[A, K]  ?b : T[B, K]
  [matmul(?a, ?x), matmul(?b, ?x)]
  => split(matmul(concat(?a, ?b){axis=0}, ?x), [A, B]){axis=0}
)",
                                          ops::table());
  ASSERT_TRUE(rules.ok()) << rules.error().to_string();
  const Cost level = [](const ir::Graph&) -> Expected<double> { return 1; };
  Options options;
  options.simplify = true;
  options.compare = [](const ir::Graph&, const ir::Graph&, int) -> Expected<Comparison> { return Comparison{0, 1}; };
  const auto found = optimise(g, ops::table(), pointers(*rules), level, level, options);
  ASSERT_TRUE(found.ok()) << found.error().to_string();
  EXPECT_EQ(count(found->graph, "matmul"), 1);
  const auto ready = passes::run_pipeline(found->graph, ops::table(), "inference");
  ASSERT_TRUE(ready.ok()) << ready.error().to_string();
  EXPECT_EQ(count(*ready, "concat"), 0) << ir::print(*ready);
  testing::expect_same_function(*ready, g);
}

}  // namespace
}  // namespace isomer::search
