#include "cost/pricer.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <thread>

#include "codegen/codegen.h"
#include "ir/text.h"
#include "ops/table.h"
#include "zoo/zoo.h"

namespace isomer::cost {
namespace {

namespace fs = std::filesystem;

ir::Graph graph(const std::string& text) {
  auto g = ir::parse("graph @g" + text, ops::table());
  EXPECT_TRUE(g.ok()) << g.error().to_string();
  return *std::move(g);
}

ir::Graph network(const std::string& name, int64_t image) {
  zoo::Options options;
  options.image = image;
  auto net = zoo::build(name, ops::table(), options);
  EXPECT_TRUE(net.ok());
  return *std::move(net);
}

std::shared_ptr<Pricer> pricer(bool measure, const std::string& store = "-",
                               const loop::Target& target = *codegen::host_target()) {
  PricerOptions o;
  o.target = target;
  o.threads = 1;
  o.measure = measure;
  o.store = store;
  auto p = Pricer::make(ops::table(), o);
  EXPECT_TRUE(p.ok());
  return *p;
}

// x * (a * b), with weights that are expressions of constants.
std::string with_weight(const std::string& weight) {
  return "(%x: f32[32,64]) { return \"y\"=relu(matmul(%x, " + weight + ")) }";
}

TEST(Pricer, WhatDependsOnConstantsAloneIsFree) {
  const auto p = pricer(false);
  const auto plain = p->price(graph(with_weight("expand(const f32[] 0.5, [64,48])")));
  const auto unfolded =
      p->price(graph(with_weight("relu(transpose(mul(expand(const f32[] 0.25, [48,64]), const f32[] 2)))")));
  ASSERT_TRUE(plain.ok() && unfolded.ok()) << plain.error().to_string();
  EXPECT_EQ(plain->kernels, 1U);
  EXPECT_EQ(unfolded->kernels, 1U);
  EXPECT_EQ(plain->seconds, unfolded->seconds);
}

TEST(Pricer, WhatComesTooLateHasNoPriceAndIsAskedAgain) {
  const auto p = pricer(true);
  const ir::Graph one = graph(with_weight("expand(const f32[] 0.5, [64,48])"));
  const ir::Graph other = graph(with_weight("expand(const f32[] 0.5, [64,32])"));
  {
    const Pricer::Limit limit = p->limit(0);
    for (const auto& price : {p->price(one, Pricer::Extent::Piece), p->price(one)}) {
      ASSERT_FALSE(price.ok());
      EXPECT_EQ(price.error().code, "E-time");
    }
    for (const int look : {1, 2}) EXPECT_FALSE(p->compare(one, other, Pricer::Extent::Piece, look).ok()) << look;
    EXPECT_TRUE(p->estimate(one, Pricer::Extent::Piece).ok());
    EXPECT_EQ(p->measured(), 0U);
  }
  EXPECT_TRUE(p->price(one, Pricer::Extent::Piece).ok());
  EXPECT_TRUE(p->compare(one, other, Pricer::Extent::Piece, 2).ok());
  const Pricer::Limit limit = p->limit(0);
  EXPECT_TRUE(p->price(one, Pricer::Extent::Piece).ok());  // its kernels are known
}

TEST(Pricer, DistinctConstantsStayDistinct) {
  // Two products of one input by weights that are not computed: they must not become one.
  const auto two = pricer(false)->price(graph(R"((%x: f32[32,64]) {
    %a = matmul(%x, exp(expand(const f32[] 0.5, [64,48])))
    %b = matmul(%x, exp(expand(const f32[] 0.7, [64,48])))
    return "y"=softmax(%a), "z"=softmax(%b)
  })"));
  ASSERT_TRUE(two.ok()) << two.error().to_string();
  EXPECT_GE(two->kernels, 4U);
}

TEST(Pricer, ShapesAreReallyComputed) {
  const auto price = pricer(false)->price(graph(R"((%x: f32[2,3,4]) {
    %r = concat(mul(const i64[1] [3], const i64[1] [2]), const i64[1] [4]){axis=0}
    return "y"=relu(reshape(%x, %r))
  })"));
  ASSERT_TRUE(price.ok()) << price.error().to_string();
  EXPECT_EQ(price->kernels, 1U);
}

TEST(Pricer, WeightsAreAsFarAsThereAreManyOfThem) {
  const auto of = [](int64_t megabytes) {
    ir::GraphBuilder b(ops::table(), "weights");
    b.output("y", b.constant(Tensor(DType::U8, {megabytes << 20})));
    return weight_reach(*std::move(b).finish());
  };
  EXPECT_EQ(of(1), of(4));
  EXPECT_EQ(of(1).kind, Reach::Kind::Pool);
  // Unless no cache is so large.
  const bool near = of(9).kind == Reach::Kind::Pool;
  EXPECT_EQ(of(9).bytes, near ? uint64_t{8} << 20 : 0);
}

TEST(Pricer, EstimatesGrowWithWork) {
  const auto p = pricer(false);
  double last = 0;
  for (const int n : {16, 64, 256, 1024}) {
    const std::string size = std::to_string(n);
    const auto e = p->estimate(graph("(%x: f32[" + size + "," + size + "], %y: f32[" + size + "," + size +
                                     "]) { return \"z\"=matmul(%x, %y) }"));
    ASSERT_TRUE(e.ok()) << e.error().to_string();
    EXPECT_GT(e->seconds, last);
    EXPECT_EQ(e->estimated, e->kernels);
    last = e->seconds;
  }
}

TEST(Pricer, BranchesAndLoopsHaveThePriceOfTheirKernels) {
  for (const bool measure : {false, true}) {
    const auto price = pricer(measure)->price(graph(R"((%c: bool[], %x: f32[64]) {
      %y = if(%c, %x){captures=1,
        then_branch=graph @t(%a: f32[64]) { return "r"=softmax(%a) },
        else_branch=graph @e(%a: f32[64]) { return "r"=neg(%a) }}
      %z = loop(const i64[] 3, _, %y){body=graph @b(%i: i64[], %k: bool[], %v: f32[64]) {
        return "k"=%k, "n"=exp(neg(%v)) }}
      return "z"=%z
    })"));
    ASSERT_TRUE(price.ok()) << price.error().to_string();
    EXPECT_GE(price->kernels, 3U);
    EXPECT_GT(price->seconds, 0);
  }
}

TEST(Pricer, GraphsThatCannotBeCompiledAreRefused) {
  EXPECT_FALSE(pricer(false)->price(graph("(%x: f32[N,4]) { return \"y\"=relu(%x) }")).ok());
  EXPECT_FALSE(pricer(false)->price(graph("(%x: f32[5]) { return \"y\"=non_zero(%x) }")).ok());
}

TEST(Pricer, APriceIsTheSameForAGivenStore) {
  const fs::path folder = fs::temp_directory_path() / ("isomer_pricer_test_" + std::to_string(getpid()));
  fs::remove_all(folder);
  const std::string store = folder / "kernels.db";
  const ir::Graph net = network("squeezenet1_1", 32);
  const ir::Graph other = graph(with_weight("expand(const f32[] 0.5, [64,48])"));
  Price first, alone;
  {
    const auto p = pricer(true, store);
    first = *p->price(net);
    alone = *p->price(other);
    EXPECT_GT(first.measured, 5U);
    EXPECT_EQ(first.estimated, 0U);
    EXPECT_EQ(p->price(net)->measured, 0U);
    EXPECT_EQ(p->price(net)->seconds, first.seconds);
  }
  const auto p = pricer(true, store);  // in another order, from several threads
  std::vector<std::thread> threads;
  std::vector<double> found(4);
  for (size_t t = 0; t < found.size(); ++t)
    threads.emplace_back([&, t] { found[t] = p->price(t % 2 ? net : other)->seconds; });
  for (std::thread& t : threads) t.join();
  for (size_t t = 0; t < found.size(); ++t) EXPECT_EQ(found[t], t % 2 ? first.seconds : alone.seconds);
  EXPECT_EQ(p->price(net)->measured, 0U);
  EXPECT_EQ(pricer(false, store)->price(net)->seconds, first.seconds);
  fs::remove_all(folder);
}

// What two graphs share does not count, and the second times are kept like the first.
TEST(Pricer, TheSecondLookIsAtWhatDiffers) {
  const ir::Graph one = graph(with_weight("expand(const f32[] 0.5, [64,48])"));
  const ir::Graph other = graph(with_weight("expand(const f32[] 0.5, [64,400])"));
  const auto model = Pricer::Extent::Model;
  const auto plain = pricer(false);
  EXPECT_EQ(plain->compare(one, one, model, 2)->seconds, 0);
  EXPECT_EQ(plain->compare(one, one, model, 1)->changed, 0);
  const double before = plain->price(one)->seconds, after = plain->price(other)->seconds;
  for (const int look : {1, 2, 3}) {
    EXPECT_NEAR(plain->compare(one, other, model, look)->seconds, after - before, 1e-12);
    EXPECT_NEAR(plain->compare(one, other, model, look)->changed, before, 1e-12);
  }
  const auto timed = pricer(true);
  const auto first = timed->compare(one, other, model, 2);
  ASSERT_TRUE(first.ok()) << first.error().to_string();
  const size_t measured = timed->measured();
  EXPECT_EQ(measured, 2U);
  EXPECT_EQ(timed->compare(one, other, model, 2)->seconds, first->seconds);
  EXPECT_EQ(timed->compare(other, one, model, 2)->seconds, -first->seconds);
  EXPECT_EQ(timed->measured(), measured);
  EXPECT_NEAR(timed->compare(one, other, model, 1)->seconds, timed->price(other)->seconds - timed->price(one)->seconds,
              1e-12);
}

// Kernels that carry values on are told from others. One that lays a small operand out for a product is a part of it.
TEST(Pricer, CopiesAreCounted) {
  const auto p = pricer(false, "-", *loop::parse_target("x86-64-v4"));
  const auto difference = [&](const std::string& before, const std::string& after) {
    const auto c = p->compare(graph(before), graph(after), Pricer::Extent::Model, 1);
    EXPECT_TRUE(c.ok());
    return c.ok() ? std::pair(c->kernels, c->moves) : std::pair<int64_t, int64_t>();
  };
  const std::string relu = "(%x: f32[64,512]) { return relu(%x) }";
  const std::string copied = "(%x: f32[64,512]) { %y = relu(%x) return %y, transpose(%y){perm=[1,0]} }";
  EXPECT_EQ(difference(relu, copied), std::pair(int64_t{1}, int64_t{1}));
  EXPECT_EQ(difference(copied, relu), std::pair(int64_t{-1}, int64_t{-1}));
  const std::string narrow = "(%x: f32[20,512]) { return matmul(%x, expand(const f32[] 0.5, [512,512])) }";
  const std::string wide = "(%x: f32[20,512]) { return matmul(%x, expand(const f32[] 0.5, [512,1536])) }";
  EXPECT_EQ(difference(narrow, wide), std::pair(int64_t{1}, int64_t{0}));
}

// Threads that ask at the same time get one answer, the one that is kept.
TEST(Pricer, ASecondLookIsTakenOnceByAllThreads) {
  const ir::Graph one = graph(with_weight("expand(const f32[] 0.5, [64,48])"));
  const ir::Graph other = graph(with_weight("expand(const f32[] 0.5, [64,400])"));
  const auto p = pricer(true);
  std::vector<std::thread> threads;
  std::vector<double> found(4);
  for (size_t t = 0; t < found.size(); ++t)
    threads.emplace_back([&, t] { found[t] = p->compare(one, other, Pricer::Extent::Piece, 2)->seconds; });
  for (std::thread& t : threads) t.join();
  for (const double f : found) EXPECT_EQ(f, found[0]);
  EXPECT_EQ(p->measured(), 2U);
}

TEST(Pricer, PartsThatNobodyHasTimedAreEstimatedWhereNothingShallBe) {
  const auto p = pricer(true);
  const ir::Graph net = network("squeezenet1_1", 64);
  const auto before = p->kernels(net, 0);
  ASSERT_TRUE(before.ok());
  EXPECT_EQ(p->measured(), 0U);
  for (const KernelPrice& k : *before) EXPECT_TRUE(!k.known && k.seconds == k.estimate) << k.kernel;
  const auto timed = p->kernels(net);
  ASSERT_TRUE(timed.ok());
  const auto after = p->kernels(net, 0);
  ASSERT_TRUE(after.ok());
  for (size_t i = 0; i < after->size(); ++i) EXPECT_EQ((*after)[i].seconds, (*timed)[i].seconds);
}

TEST(Pricer, PartsAddUpToThePrice) {
  const auto p = pricer(false);
  const ir::Graph net = network("resnet18", 64);
  const auto parts = p->kernels(net);
  ASSERT_TRUE(parts.ok());
  double sum = 0;
  for (const KernelPrice& k : *parts) sum += k.seconds;
  EXPECT_DOUBLE_EQ(sum, p->price(net)->seconds);
}

}  // namespace
}  // namespace isomer::cost
