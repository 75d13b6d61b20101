// Labels: whatever they say, a model computes the same; and the compiler's own choices are the first of every variable.
#include "compile/labels.h"

#include <map>
#include <set>

#include "base/random.h"
#include "compile/label_space.h"
#include "driver/labelled.h"
#include "passes/manager.h"
#include "test/unit/compile/compiled.h"

namespace isomer::compile {
namespace {

// Convolutions of all kinds, a pool, a concatenation, a value that two read, a view, and an input that a product reads.
constexpr const char* kNetwork = R"(
graph @g(%x: f32[1,16,12,12], %w1: f32[1]) {
  %a = relu(conv(%x, const f32[32,16,3,3] splat(0.03)){pads=[1,1,1,1]})
  %b = relu(conv(%a, const f32[16,32,1,1] splat(0.11)))
  %c = mul(conv(%a, const f32[16,32,3,3] splat(-0.02)){pads=[1,1,1,1]}, %w1)
  %d = concat(%b, %c){axis=1}
  %e = conv(%d, const f32[32,1,3,3] splat(0.2)){pads=[1,1,1,1], group=32}
  %f = max_pool(%e){kernel_shape=[2,2], strides=[2,2]}
  %h = conv(%f, const f32[32,8,3,3] splat(0.05)){pads=[1,1,1,1], group=4}
  %s = add(%h, %f)
  %v = reshape(%s, const i64[3] [1, 32, 36])
  return softmax(%v){axis=2}, tanh(%s)
})";

ir::Graph network() {
  const auto ready = passes::run_pipeline(graph_of(kNetwork), ops::table(), "inference");
  EXPECT_TRUE(ready.ok());
  return *ready;
}

LowerOptions options_for_host(KernelCache& cache) {
  LowerOptions o;
  o.target = *codegen::host_target();
  o.weights = false;
  o.cache = &cache;
  return o;
}

void expect_same_results(const ir::Graph& labelled, const ir::Graph& plain) {
  const std::vector<Tensor> inputs = random_inputs(plain, 5);
  interp::Options exact;
  exact.wide = true;
  const auto want = interp::run(plain, ops::table(), inputs, exact);
  ExecutableOptions o;
  o.lower.target = *codegen::host_target();
  const auto made = Executable::build(labelled, ops::table(), o);
  ASSERT_TRUE(want.ok() && made.ok());
  auto runner = Runner::make(*made, 2, ISO_POISON);
  const auto got = runner->run(inputs);
  ASSERT_TRUE(got.ok()) << got.error().to_string();
  for (size_t k = 0; k < got->size(); ++k)
    for (int64_t i = 0; i < (*got)[k].size(); ++i)
      ASSERT_NEAR((*got)[k].real(i), (*want)[k].real(i), 1e-4) << "output " << k << " at " << i;
}

TEST(Labels, AnyLabelsGiveTheSameResults) {
  const ir::Graph g = network();
  KernelCache cache;
  const LowerOptions options = options_for_host(cache);
  const auto space = LabelSpace::make(g, ops::table(), options);
  ASSERT_TRUE(space.ok()) << space.error().to_string();
  ASSERT_GE(space->variables().size(), 4U);
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    std::vector<size_t> choice;
    for (const auto& v : space->variables()) choice.push_back(random.below(v.labels.size()));
    std::vector<Method> methods;
    for (size_t f = 0; f < space->factors().size(); ++f)
      methods.push_back({static_cast<Algorithm>(random.below(kAlgorithmCount)),
                         {int64_t(random.below(3) * 21), int64_t(random.below(4)), int64_t(random.below(3) * 16),
                          int64_t(random.below(5))}});
    const Labels labels = space->labels(choice, methods);
    const auto labelled = driver::with_labels(g, print(labels, options.target));
    ASSERT_TRUE(labelled.ok()) << labelled.error().to_string();
    EXPECT_EQ(labels_of(*labelled, options.target), labels);
    expect_same_results(*labelled, g);
  }
}

// The kernels of all factors under some choice, and those of the plan that the labels lead to.
void expect_plan(const LabelSpace& space, const ir::Graph& g, const LowerOptions& options,
                 const std::vector<size_t>& choice) {
  std::multiset<std::string> promised, made;
  for (size_t f = 0; f < space.factors().size(); ++f) {
    std::vector<size_t> own;
    for (const size_t v : space.factors()[f].variables) own.push_back(choice[v]);
    const auto ways = space.work(f, own);
    if (!ways.empty()) promised.insert(ways[0].kernels->signatures.begin(), ways[0].kernels->signatures.end());
  }
  const Labels labels = space.labels(choice, std::vector<Method>(space.factors().size()));
  const auto labelled = driver::with_labels(g, labels.empty() ? "" : print(labels, options.target));
  const auto lowered = lower(*labelled, ops::table(), options);
  ASSERT_TRUE(lowered.ok());
  for (const Step& s : lowered->plan.steps)
    for (size_t i = 0; i < lowered->functions.size(); ++i)
      if (lowered->functions[i].name == s.function) made.insert(lowered->signatures[i]);
  EXPECT_EQ(promised, made);
}

TEST(Labels, FactorsAreThePlan) {
  const ir::Graph g = network();
  KernelCache cache;
  const LowerOptions options = options_for_host(cache);
  const auto space = LabelSpace::make(g, ops::table(), options);
  ASSERT_TRUE(space.ok());
  expect_plan(*space, g, options, std::vector<size_t>(space->variables().size()));
  for (size_t v = 0; v < space->variables().size(); ++v) {
    SCOPED_TRACE(space->variables()[v].value);
    std::vector<size_t> choice(space->variables().size());
    choice[v] = space->variables()[v].labels.size() - 1;
    expect_plan(*space, g, options, choice);
  }
}

TEST(Labels, MethodsAreText) {
  const Method cut(Algorithm::Split, {64, 2, 0, 0});
  EXPECT_EQ(text(cut), "split rows=64 parts=2");
  EXPECT_EQ(method_of(text(cut)), cut);
  EXPECT_EQ(method_of("filtering outputs=2"), Method(Algorithm::Filtering, {0, 0, 0, 2}));
  for (const char* wrong : {"", "split rows", "split rows=", "split rows=-1", "split rows=x", "split depth=1", "spilt"})
    EXPECT_EQ(method_of(wrong), std::nullopt) << wrong;
}

TEST(Labels, CutsAreOtherKernelsOfTheScheme) {
  const ir::Graph g = network();
  KernelCache cache;
  const LowerOptions options = options_for_host(cache);
  const auto space = LabelSpace::make(g, ops::table(), options);
  ASSERT_TRUE(space.ok());
  size_t others = 0;
  for (size_t f = 0; f < space->factors().size(); ++f) {
    const std::vector<size_t> standard(space->factors()[f].variables.size());
    for (const LabelSpace::Work& own : space->work(f, standard))
      for (const LabelSpace::Work& cut : space->cuts(f, own.scheme)) {
        EXPECT_EQ(cut.method.algorithm, own.scheme);
        others += cut.kernels->signatures != own.kernels->signatures;
      }
  }
  EXPECT_GT(others, 4U);
}

// What stands behind a reduction does not matter to what it reduces, sizes and taps do.
TEST(Labels, ReductionsAreKnownWhateverStandsBehindThem) {
  const auto ready = passes::run_pipeline(graph_of(R"(
graph @g(%x: f32[1,16,12,12]) {
  %a = relu(conv(%x, const f32[16,16,3,3] splat(0.03)){pads=[1,1,1,1]})
  %b = relu(conv(%a, const f32[16,16,3,3] splat(0.02)){pads=[1,1,1,1]})
  %c = relu(add(conv(%b, const f32[16,16,3,3] splat(0.04)){pads=[1,1,1,1]}, %a))
  %d = relu(conv(%c, const f32[16,16,3,3] splat(0.05)){pads=[2,2,2,2], dilations=[2,2]})
  %e = relu(conv(%d, const f32[16,16,1,1] splat(0.06)))
  return max_pool(%e){kernel_shape=[2,2], strides=[2,2]}
})"),
                                          ops::table(), "inference");
  ASSERT_TRUE(ready.ok());
  KernelCache cache;
  const LowerOptions options = options_for_host(cache);
  const auto space = LabelSpace::make(*ready, ops::table(), options);
  ASSERT_TRUE(space.ok());
  std::map<std::string, size_t> reductions;
  for (size_t f = 0; f < space->factors().size(); ++f) ++reductions[space->reduction_of(f)];
  EXPECT_GE(reductions[""], 1U);  // the pool
  reductions.erase("");
  size_t most = 0;
  for (const auto& [text, count] : reductions) most = std::max(most, count);
  EXPECT_EQ(most, 2U);               // b and c; a reads an input, which lies otherwise
  EXPECT_EQ(reductions.size(), 4U);  // a, both of them, d, e
}

TEST(Labels, WhatFitsNothingIsLeftOut) {
  const loop::Target target = *codegen::host_target();
  const Labels some = {{"a b", {{0, 2, 3, 1}, false, Algorithm::Tiles}}, {"c", {{}, true, Algorithm::Standard}}};
  EXPECT_EQ(parse_labels(print(some, target), target), some);
  loop::Target other = target;
  other.cpu = "another";
  EXPECT_TRUE(parse_labels(print(some, target), other).empty());
  const std::string head = print({}, target);
  for (const char* line : {"", "a", "a\torder\t1,\ttiles", "a\torder\t1\tmagic", "a\torder\t9999999999999\ttiles"})
    EXPECT_TRUE(parse_labels(head + line + "\n", target).empty()) << line;
  const ir::Graph g = network();
  for (const char* line : {"x\torder\t0,0,0,0\tstandard", "x\tcopy\t0,1\tstandard", "nobody\torder\t0,1\trows"}) {
    const auto labelled = driver::with_labels(g, head + line + "\n");
    ASSERT_TRUE(labelled.ok());
    expect_same_results(*labelled, g);
  }
}

}  // namespace
}  // namespace isomer::compile
