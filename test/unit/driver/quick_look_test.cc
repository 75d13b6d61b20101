// What estimates alone find: the same every time, whole or not at all.
#include "driver/quick_look.h"

#include <gtest/gtest.h>

#include <limits>

#include "codegen/codegen.h"
#include "ops/table.h"
#include "rewrite/rule.h"

namespace isomer::driver {
namespace {

constexpr const char* kRules = R"(
rule factor : exact
  ?x : T[M, K]  ?a, ?b : T[K, N]
  add(matmul(?x, ?a), matmul(?x, ?b))
  => matmul(?x, add(?a, ?b))
)";

// The sum of two products of one input with constants: one product, since the sum of the constants is free.
ir::Graph model() {
  ir::GraphBuilder b(ops::table(), "sum");
  const ir::Value x = *b.input("x", {DType::F32, Shape::of({256, 256}), nullptr});
  const auto product = [&](double value) {
    return *b.add1("matmul", {x, b.constant(Tensor::of(DType::F32, {256, 256}, std::vector<double>(65536, value)))});
  };
  b.output("y", *b.add1("add", {product(1), product(2)}));
  return *std::move(b).finish();
}

Foreseen foreseen(double cheapest) {
  const auto rules = rewrite::parse_rules(kRules, ops::table());
  EXPECT_TRUE(rules.ok());
  const ir::Graph start = model();
  const std::vector<const rewrite::Rule*> all = {&rules->front()};
  search::Options options;
  cost::PricerOptions pricing;
  pricing.target = *codegen::host_target();
  pricing.threads = 1;
  pricing.store = "-";
  const Sizes none;
  auto found = foresee({start, all, none, options}, pricing, cheapest);
  EXPECT_TRUE(found.ok());
  return found.ok() ? *std::move(found) : Foreseen();
}

TEST(QuickLook, ForeseesWhatGainsByItsEstimates) {
  const Foreseen found = foreseen(std::numeric_limits<double>::infinity());
  EXPECT_EQ(found.cheapest.size(), 1U);
  EXPECT_GT(found.gain, 0.1);  // half of the products
  EXPECT_LT(found.gain, 1);
}

TEST(QuickLook, WhatTimeIsTooShortForIsNotForeseen) { EXPECT_TRUE(foreseen(1e-9).cheapest.empty()); }

TEST(QuickLook, ASearchByEstimatesIsNotMadeTwice) { EXPECT_TRUE(foreseen(0).cheapest.empty()); }

}  // namespace
}  // namespace isomer::driver
