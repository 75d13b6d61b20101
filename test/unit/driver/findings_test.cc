// Every way of looking for rewrites has its say, with layouts and without.
#include "driver/findings.h"

#include <gtest/gtest.h>

#include "rewrite/rule.h"
#include "test/products_of_one.h"

namespace isomer::driver {
namespace {

constexpr const char* kSideBySide = R"(
rule merge : exact
  ?x : T[M, K]  ?a : T[K, A]  ?b : T[K, B]
  [matmul(?x, ?a), matmul(?x, ?b)]
  => split(matmul(?x, concat(?a, ?b){axis=1}), [A, B]){axis=1}
)";

// The sum of two products, which could be one, and two others of one value that could lie side by side.
ir::Graph model() {
  ir::GraphBuilder b(ops::table(), "four");
  const ir::Value x = square_input(b);
  const ir::Value u = *b.add1("tanh", {x});
  b.output("y", *b.add1("add", {product(b, x, 1), product(b, x, 2)}));
  b.output("v", *b.add1("tanh", {product(b, u, 3)}));
  b.output("w", *b.add1("tanh", {product(b, u, 4)}));
  return *std::move(b).finish();
}

class FindingsOf : public testing::TestWithParam<bool> {
 protected:
  static Findings find(const OptimizeOptions& options) {
    const auto rules = rewrite::parse_rules(std::string(kSumOfProducts) + kSideBySide, ops::table());
    EXPECT_TRUE(rules.ok());
    std::vector<const rewrite::Rule*> all;
    for (const rewrite::Rule& r : *rules) all.push_back(&r);
    const auto pricer = cost::Pricer::make(ops::table(), by_estimates());
    EXPECT_TRUE(pricer.ok());
    const ir::Graph start = model();
    const Sizes none;
    const Budget budget(options.search.seconds);
    const CandidateMaker candidates(start, all, none, **pricer, budget, options.timing_seconds);
    auto found = Finder{start, all, none, options, candidates, budget, **pricer}.find();
    EXPECT_TRUE(found.ok());
    return found.ok() ? *std::move(found) : Findings();
  }
};

TEST_P(FindingsOf, HoldWhatGainsAndTheSimplestForm) {
  OptimizeOptions options;
  options.measure = false;  // as the pricer is told
  options.layout = GetParam();
  const Findings found = find(options);
  ASSERT_EQ(found.lists.size(), 1U);  // both ways find the same graph
  EXPECT_FALSE(found.lists[0].confirmed);
  EXPECT_TRUE(found.foreseen.cheapest.empty());  // is in that list
  EXPECT_FALSE(found.foreseen.simplest.empty());
  EXPECT_GT(found.statistics.priced, 0U);
}

INSTANTIATE_TEST_SUITE_P(LayoutsOrNot, FindingsOf, testing::Bool());

TEST(Budget, EndsAtItsShare) {
  EXPECT_EQ(Budget(0).left(1), 0);
  const Budget hour(3600);
  EXPECT_LE(hour.left(0.5), 1800);
  EXPECT_GT(hour.left(0.5), 0);
  EXPECT_EQ(hour.part(0.5).seconds(), 1800);
  EXPECT_LE(hour.part(0.5).left(), hour.left(0.5) + 1e-3);
}

}  // namespace
}  // namespace isomer::driver
