#include <gtest/gtest.h>

#include "test/unit/ops/one_node.h"

namespace isomer {
namespace {

Tensor steps(int64_t t) { return Tensor::int_scalar(DType::I64, t); }

TEST(Optimizers, AdagradDividesByTheRootOfAllSquares) {
  const auto y = run_one("train_adagrad", {f32({}, {0.5}), steps(2), f32({1}, {1}), f32({1}, {3}), f32({1}, {16})},
                         {{"decay_factor", 0.5}, {"epsilon", 0.0}, {"norm_coefficient", 0.0}}, 2);
  ASSERT_TRUE(y.ok()) << y.error().to_string();
  expect_near(y->at(0), {1 - 0.25 * 3 / 5});
  expect_near(y->at(1), {25});
}

TEST(Optimizers, AdamCorrectsTheStartOnlyAfterTheFirstStep) {
  const auto step = [](int64_t t) {
    return run_one("train_adam", {f32({}, {0.5}), steps(t), f32({1}, {1}), f32({1}, {2}), f32({1}, {4}), f32({1}, {4})},
                   {{"alpha", 0.5}, {"beta", 0.75}, {"epsilon", 0.0}}, 3);
  };
  const auto first = step(0), later = step(2);
  ASSERT_TRUE(first.ok() && later.ok());
  expect_near(first->at(0), {1 - 0.5 * 3 / 2});
  expect_near(first->at(1), {3});
  expect_near(first->at(2), {4});
  expect_near(later->at(0), {1 - 0.5 * std::sqrt(1 - 0.5625) / 0.75 * 3 / 2});
}

TEST(Optimizers, MomentumUpdatesEachParameterOfItsList) {
  const std::vector<Operand> in = {f32({}, {0.5}), steps(1),         f32({1}, {1}), f32({2}, {1, 2}),
                                   f32({1}, {4}),  f32({2}, {2, 4}), f32({1}, {2}), f32({2}, {0, 2})};
  ir::Attrs attrs = {{"alpha", 0.5}, {"beta", 0.25}, {"norm_coefficient", 0.0}, {"mode", std::string("standard")}};
  const auto y = run_one("train_momentum", in, attrs, 4);
  ASSERT_TRUE(y.ok()) << y.error().to_string();
  expect_near(y->at(0), {0});
  expect_near(y->at(1), {0.75, 1});
  expect_near(y->at(2), {2});
  expect_near(y->at(3), {0.5, 2});
  attrs.set("mode", std::string("nesterov"));
  expect_near(run_one("train_momentum", in, attrs, 4)->at(0), {1 - 0.5 * (4 + 0.5 * 2)});
  attrs.set("mode", std::string("other"));
  EXPECT_FALSE(run_one("train_momentum", in, attrs, 4).ok());
}

TEST(Optimizers, RefuseListsThatAreNoGroups) {
  const Tensor x = f32({1}, {1});
  EXPECT_FALSE(run_one("train_adagrad", {f32({}, {1}), steps(0), x, x, x, x}, {}, 2).ok());
  EXPECT_FALSE(run_one("train_adagrad", {f32({}, {1}), steps(0), x, x, x}, {}, 3).ok());
  EXPECT_FALSE(run_one("train_adagrad", {f32({}, {1}), steps(0), x, x, f32({2}, {1, 1})}, {}, 2).ok());
  EXPECT_FALSE(run_one("train_adagrad", {f32({2}, {1, 1}), steps(0), x, x, x}, {}, 2).ok());
  EXPECT_FALSE(run_one("train_adagrad", {f32({}, {1}), steps(0), x, std::nullopt, x}, {}, 2).ok());
  EXPECT_FALSE(run_one("train_adagrad", {f32({}, {1}), steps(0)}, {}, 2).ok());
}

}  // namespace
}  // namespace isomer
