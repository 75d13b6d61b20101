// Products of one input with constants, a rule by which a sum of two of them is one, and prices by estimates alone: what estimates
// must see, the same way on every machine.
#pragma once

#include <gtest/gtest.h>

#include <vector>

#include "codegen/codegen.h"
#include "cost/pricer.h"
#include "ops/table.h"

namespace isomer {

inline constexpr const char* kSumOfProducts = R"(
rule factor : exact
  ?x : T[M, K]  ?a, ?b : T[K, N]
  add(matmul(?x, ?a), matmul(?x, ?b))
  => matmul(?x, add(?a, ?b))
)";

constexpr int64_t kProductSize = 256;

inline ir::Value square_input(ir::GraphBuilder& b) {
  return *b.input("x", {DType::F32, Shape::of({kProductSize, kProductSize}), nullptr});
}

// All weights are `value`.
inline ir::Value product(ir::GraphBuilder& b, const ir::Value& x, double value) {
  const std::vector<double> weights(kProductSize * kProductSize, value);
  return *b.add1("matmul", {x, b.constant(Tensor::of(DType::F32, {kProductSize, kProductSize}, weights))});
}

inline cost::PricerOptions by_estimates() {
  cost::PricerOptions out;
  const auto target = codegen::host_target();
  EXPECT_TRUE(target.ok());
  out.target = *target;
  out.threads = 1;
  out.measure = false;
  out.store = "-";
  return out;
}

}  // namespace isomer
