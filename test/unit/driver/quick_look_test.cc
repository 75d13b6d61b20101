// What estimates alone find: the same every time, whole or not at all.
#include "driver/quick_look.h"

#include <gtest/gtest.h>

#include <limits>

#include "rewrite/rule.h"
#include "test/products_of_one.h"

namespace isomer::driver {
namespace {

// One product, since the sum of the constants is free.
ir::Graph model() {
  ir::GraphBuilder b(ops::table(), "sum");
  const ir::Value x = square_input(b);
  b.output("y", *b.add1("add", {product(b, x, 1), product(b, x, 2)}));
  return *std::move(b).finish();
}

Foreseen foreseen(double cheapest) {
  const auto rules = rewrite::parse_rules(kSumOfProducts, ops::table());
  EXPECT_TRUE(rules.ok());
  const ir::Graph start = model();
  const std::vector<const rewrite::Rule*> all = {&rules->front()};
  search::Options options;
  const Sizes none;
  const auto timing = cost::Pricer::make(ops::table(), by_estimates());
  EXPECT_TRUE(timing.ok());
  if (!timing.ok()) return {};
  auto found = foresee({start, all, none, options}, **timing, cheapest);
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
