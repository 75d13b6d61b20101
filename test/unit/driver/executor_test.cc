// The executor: the same bytes however it runs, versions per size, parts that wait for data, and answers to wrong inputs.
#include "driver/executor.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <thread>

#include "driver/model.h"
#include "interp/interp.h"
#include "ir/text.h"
#include "ops/table.h"
#include "tensor/compare.h"
#include "tensor/random_fill.h"

namespace isomer::driver {
namespace {

ir::Graph graph(const std::string& text) {
  auto g = ir::parse(text, ops::table());
  EXPECT_TRUE(g.ok()) << g.error().to_string();
  return *std::move(g);
}

Tensor floats(std::vector<int64_t> dims, uint64_t seed = 1) {
  Random r(seed);
  return random_tensor(DType::F32, std::move(dims), r);
}

void expect_agrees(Executor& executor, const ir::Graph& g, const std::vector<Tensor>& inputs) {
  const auto expected = interp::run(g, ops::table(), inputs), found = executor.run(inputs);
  ASSERT_TRUE(expected.ok()) << expected.error().to_string();
  ASSERT_TRUE(found.ok()) << found.error().to_string();
  ASSERT_EQ(found->size(), expected->size());
  for (size_t k = 0; k < found->size(); ++k) {
    EXPECT_EQ((*found)[k].dtype(), (*expected)[k].dtype());
    const Comparison c = compare((*found)[k], (*expected)[k], {.absolute = 1e-5, .relative = 1e-5});
    EXPECT_TRUE(c.ok()) << c.to_string();
  }
}

TEST(Executor, GivesTheSameBytesWithAnyThreadsAndTwice) {
  const auto model = load_model("zoo:resnet18,image=64");
  ASSERT_TRUE(model.ok());
  const std::vector<Tensor> in = {floats({1, 3, 64, 64})};
  std::vector<std::string> hashes;
  for (const int threads : {1, 2, 3}) {
    ExecutorOptions o;
    o.native.threads = threads;
    auto executor = Executor::make(model->graph, o);
    ASSERT_TRUE(executor.ok()) << executor.error().to_string();
    for (int i = 0; i < 2; ++i) hashes.push_back((*executor->run(in))[0].content_hash().hex());
  }
  EXPECT_EQ(std::vector<std::string>(hashes.size(), hashes[0]), hashes);
}

TEST(Executor, StrictSumsProducts) {
  // Whole numbers below 2^24 are exact in any order of a sum, and not after a transform that divides by 6 and 24.
  const ir::Graph g = graph(R"(graph @g(%x: f32[1,4,16,16]) {
    %y = conv(%x, const f32[32,4,1,1] splat(1))
    return conv(relu(conv(%y, const f32[32,32,3,3] splat(7)){pads=[1,1,1,1]}), const f32[1,32,1,1] splat(1)) })");
  Tensor x(DType::F32, {1, 4, 16, 16});
  for (int64_t i = 0; i < x.size(); ++i) x.mutable_as<float>()[i] = static_cast<float>(i * 7919 % 17);
  const auto exact = interp::run(g, ops::table(), {x});
  ASSERT_TRUE(exact.ok());
  for (const bool strict : {true, false}) {
    ExecutorOptions o;
    o.native.accuracy = strict ? Accuracy::Strict : Accuracy::Unchecked;
    auto executor = Executor::make(g, o);
    ASSERT_TRUE(executor.ok()) << executor.error().to_string();
    const auto found = executor->run({x});
    ASSERT_TRUE(found.ok());
    EXPECT_EQ((*found)[0] == (*exact)[0], strict);
    EXPECT_TRUE(compare((*found)[0], (*exact)[0], {.absolute = 1, .relative = 1e-5}).ok());
  }
}

TEST(Executor, GivesTheSameBytesFromEightThreadsAtOnce) {
  const auto model = load_model("zoo:tiny");
  ASSERT_TRUE(model.ok());
  ExecutorOptions o;
  o.native.threads = 2;
  auto executor = Executor::make(model->graph, o);
  ASSERT_TRUE(executor.ok());
  std::vector<std::vector<Tensor>> inputs;
  std::vector<Tensor> expected;
  const Type type = model->graph.inputs()[0].types[0];
  for (uint64_t t = 0; t < 8; ++t) {
    inputs.push_back({floats(type.shape.values(), t)});
    expected.push_back((*executor->run(inputs.back()))[0]);
  }
  std::vector<int> wrong(8);
  std::vector<std::thread> threads;
  for (size_t t = 0; t < 8; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 50; ++i) {
        const auto found = executor->run(inputs[t]);
        wrong[t] += !found.ok() || !((*found)[0] == expected[t]);
      }
    });
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(wrong, std::vector<int>(8));
}

TEST(Executor, KeepsVersionsForTheSizesThatCome) {
  const ir::Graph g = graph(R"(graph @g(%x: f32[N,4]) {
  %y = softmax(%x)
  %z = reduce_sum(%y, [0])
  return %y, %z
})");
  auto executor = Executor::make(g);
  ASSERT_TRUE(executor.ok()) << executor.error().to_string();
  for (const int64_t n : {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 1, 0, 3}) expect_agrees(*executor, g, {floats({n, 4})});
  EXPECT_TRUE(executor->report().empty());
  EXPECT_EQ(executor->facts().versions, ExecutorOptions{}.variants);
  ExecutorOptions two;
  two.variants = 2;
  auto bounded = Executor::make(g, two);
  ASSERT_TRUE(bounded.ok());
  for (const int64_t n : {1, 2, 1, 3, 1, 2}) expect_agrees(*bounded, g, {floats({n, 4})});
  EXPECT_EQ(bounded->facts().versions, 2u);
}

TEST(Executor, SpecialisesOnSizesThatAreData) {
  const ir::Graph g = graph(R"(graph @g(%x: f32[2,6], %shape: i64[2]) {
  %y = reshape(%x, %shape)
  %z = tanh(%y)
  return %z
})");
  auto executor = Executor::make(g);
  ASSERT_TRUE(executor.ok());
  for (const auto& to : std::vector<std::vector<int64_t>>{{3, 4}, {4, 3}, {12, 1}, {-1, 2}, {3, 4}})
    expect_agrees(*executor, g, {floats({2, 6}), Tensor::ints(to)});
  EXPECT_TRUE(executor->report().empty());
  EXPECT_FALSE(executor->run({floats({2, 6}), Tensor::ints({5, 5})}).ok());
}

TEST(Executor, GoesOnAtTheSizesThatDataTells) {
  const ir::Graph g = graph(R"(graph @g(%x: f32[3,40]) {
  %a = tanh(%x)
  %where = non_zero(%x)
  %at = transpose(%where)
  %picked = gather_nd(%a, %at)
  %twice = add(%picked, %picked)
  %s = softmax(%a)
  return %twice, %s
})");
  for (const bool eager : {false, true}) {
    ExecutorOptions o;
    o.eager = eager;
    auto executor = Executor::make(g, o);
    ASSERT_TRUE(executor.ok());
    for (int zeros : {0, 5, 120}) {
      Tensor x = floats({3, 40});
      Tensor cut(DType::F32, {3, 40});
      for (int64_t i = zeros; i < x.size(); ++i) cut.set_real(i, x.real(i));
      expect_agrees(*executor, g, {cut});
    }
    const std::vector<NodeReport> report = executor->report();
    EXPECT_EQ(report.size(), eager ? 0U : 3U);
    for (const NodeReport& n : report) EXPECT_EQ(n.reason, "it is too small to be compiled");
  }
  const std::vector<NodeReport> plan = plan_report(g);
  ASSERT_EQ(plan.size(), 3U);
  for (const NodeReport& n : plan) EXPECT_EQ(n.by, By::Later);
}

// What would not be one compiled program: a state that grows, branches of different sizes. The bodies are compiled.
TEST(Executor, DrivesControlFlowWhoseSizesChange) {
  const ir::Graph grows = graph(R"(graph @g(%x: f32[3]) {
  %y, %each = loop(const i64[] 4, _, %x){body=graph @b(%i: i64[], %c: bool[], %v: f32[N]) {
    %w = concat(%v, tanh(%v)){axis=0}
    return %c, %w, "each"=reduce_sum(%w, const i64[1] [0])
  }}
  return %y, %each
})");
  const ir::Graph branches = graph(R"(graph @g(%x: f32[3], %c: bool[]) {
  %y = if(%c, %x){captures=1, then_branch=graph @t(%v: f32[3]) { return "r"=tanh(%v) },
                  else_branch=graph @e(%v: f32[3]) { return "r"=concat(%v, exp(%v)){axis=0} }}
  return relu(%y)
})");
  ExecutorOptions o;
  o.eager = true;
  const auto expect_driven = [&](const ir::Graph& g, const std::vector<std::vector<Tensor>>& runs) {
    auto executor = Executor::make(g, o);
    ASSERT_TRUE(executor.ok());
    for (const std::vector<Tensor>& inputs : runs) expect_agrees(*executor, g, inputs);
    const std::vector<NodeReport> report = executor->report();
    ASSERT_EQ(report.size(), 1U) << report.back().node << ": " << report.back().reason;
    EXPECT_EQ(report[0].by, By::Driven);
    EXPECT_EQ(executor->facts().reference, 0U);
  };
  expect_driven(grows, {{floats({3})}, {floats({3})}});
  expect_driven(branches,
                {{floats({3}), Tensor::int_scalar(DType::Bool, 1)}, {floats({3}), Tensor::int_scalar(DType::Bool, 0)}});
}

// How many elements are sorted is a content that decides about sizes; how often a loop runs changes too often to be one.
TEST(Executor, TakesCountsFromValues) {
  const ir::Graph g = graph(R"(graph @g(%x: f32[2,9], %k: i64[1], %rounds: i64[]) {
  %values, %at = top_k(%x, %k)
  %y, %each = loop(%rounds, _, %x){body=graph @b(%i: i64[], %c: bool[], %v: f32[2,9]) {
    %w = tanh(%v)
    return %c, %w, "each"=%w
  }}
  return %values, %at, %y, %each
})");
  ExecutorOptions o;
  o.eager = true;
  auto executor = Executor::make(g, o);
  ASSERT_TRUE(executor.ok());
  for (const int64_t n : {3, 1, 7, 3}) {
    expect_agrees(*executor, g, {floats({2, 9}), Tensor::ints({n}), Tensor::int_scalar(DType::I64, 8 - n)});
    const std::vector<NodeReport> report = executor->report();
    ASSERT_EQ(report.size(), 1U);
    EXPECT_EQ(report[0].op, "loop");
    EXPECT_EQ(report[0].by, By::Driven);
  }
}

TEST(Executor, RefusesWrongInputs) {
  const ir::Graph g = graph("graph @g(%x: f32[N,N]) {\n  %y = relu(%x)\n  return %y\n}");
  auto executor = Executor::make(g);
  ASSERT_TRUE(executor.ok());
  const auto code = [&](const std::vector<Tensor>& in) {
    const auto out = executor->run(in);
    return out.ok() ? "" : out.error().code;
  };
  EXPECT_EQ(code({}), "E-input-count");
  EXPECT_EQ(code({Tensor(DType::F64, {2, 2})}), "E-input-type");
  EXPECT_EQ(code({floats({2})}), "E-input-type");
  EXPECT_EQ(code({floats({2, 3})}), "E-input-type");
  EXPECT_EQ(code({floats({2, 2})}), "");
}

TEST(Executor, ReportsAnIndexOutOfRange) {
  const ir::Graph g = graph("graph @g(%x: f32[3], %i: i64[2]) {\n  %y = gather(%x, %i)\n  return %y\n}");
  auto executor = Executor::make(g);
  ASSERT_TRUE(executor.ok());
  const auto out = executor->run({floats({3}), Tensor::ints({0, 7})});
  ASSERT_FALSE(out.ok());
  EXPECT_EQ(out.error().code, "E-run");
  expect_agrees(*executor, g, {floats({3}), Tensor::ints({2, -1})});
}

size_t threads_of_this_process() {
  size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/task")) ++count;
  return count;
}

TEST(Executor, PiecesShareThreads) {
  const ir::Graph g = graph(R"(graph @g(%x: f32[300,40]) {
    %e = exp(%x)
    %p = non_zero(%e)
    %t = transpose(%p)
    %y = gather_nd(%e, %t)
    return tanh(%y) })");
  ExecutorOptions options;
  options.native.threads = 3;
  options.eager = true;
  auto executor = Executor::make(g, options);
  ASSERT_TRUE(executor.ok()) << executor.error().to_string();
  const size_t before = threads_of_this_process();
  expect_agrees(*executor, g, {floats({300, 40})});
  EXPECT_GE(executor->facts().pieces, 2U);
  EXPECT_LE(threads_of_this_process(), before + 2);
}

}  // namespace
}  // namespace isomer::driver
