#include <cmath>

#include <gtest/gtest.h>

#include "apply.h"

namespace isomer::ops {
namespace {

using Ints = std::vector<int64_t>;
using Reals = std::vector<double>;

Tensor ones(int64_t n) { return reals({n}, Reals(static_cast<size_t>(n), 1)); }
Tensor zeros(int64_t n) { return reals({n}, Reals(static_cast<size_t>(n), 0)); }

TEST(BatchNormalization, InferenceAndTraining) {
  const auto x = reals({2, 1, 2}, {1, 2, 3, 6});
  const auto given = apply("batch_normalization", {x, ones(1), zeros(1), ones(1), reals({1}, {4})}, {{"epsilon", 0.0}});
  EXPECT_EQ(given->to_reals(), (Reals{0, 0.5, 1, 2.5}));
  const auto own = apply_all("batch_normalization", {x, ones(1), zeros(1), reals({1}, {10}), reals({1}, {20})},
                             {{"training_mode", int64_t{1}}, {"epsilon", 0.0}, {"momentum", 0.5}}, 3);
  ASSERT_TRUE(own.ok()) << own.error().to_string();
  EXPECT_NEAR(own->at(0).to_reals()[3], 3 / std::sqrt(3.5), 1e-6);
  EXPECT_EQ(own->at(1).to_reals(), Reals{6.5});
  EXPECT_EQ(own->at(2).to_reals(), Reals{11.75});
}

TEST(BatchNormalization, ChecksItsParameters) {
  const auto x = reals({1, 2}, {1, 2});
  EXPECT_FALSE(apply("batch_normalization", {x, ones(3), zeros(3), zeros(3), ones(3)}).ok());
  EXPECT_FALSE(apply("batch_normalization", {x, ones(2), zeros(2), zeros(2), reals({1, 2}, {1, 1})}).ok());
  EXPECT_FALSE(apply("batch_normalization", {reals({}, {1}), ones(1), zeros(1), zeros(1), ones(1)}).ok());
  EXPECT_FALSE(apply_all("batch_normalization", {x, ones(2), zeros(2), zeros(2), ones(2)}, {}, 2).ok());
}

TEST(LayerNormalization, GivesItsStatisticsInTheStashType) {
  const auto x = reals({2, 2}, {1, 3, 10, 30}, DType::F16), scale = reals({2}, {1, 1}, DType::F16);
  const auto out = apply_all("layer_normalization", {x, scale}, {{"epsilon", 0.0}}, 3);
  ASSERT_TRUE(out.ok()) << out.error().to_string();
  EXPECT_EQ(out->at(0).to_reals(), (Reals{-1, 1, -1, 1}));
  EXPECT_EQ(out->at(1).dtype(), DType::F32);
  EXPECT_EQ(out->at(1).dims(), (Ints{2, 1}));
  EXPECT_EQ(out->at(1).to_reals(), (Reals{2, 20}));
  EXPECT_FALSE(apply("layer_normalization", {x, scale}, {{"axis", int64_t{2}}}).ok());
  EXPECT_FALSE(apply("layer_normalization", {x, reals({3}, {1, 1, 1}, DType::F16)}).ok());
  EXPECT_FALSE(apply("layer_normalization", {x, scale}, {{"stash_type", DType::I32}}).ok());
}

TEST(GroupNormalization, NormalisesGroupsAndChecksThem) {
  const auto x = reals({1, 4, 1}, {1, 3, 10, 30});
  const auto y = apply("group_normalization", {x, reals({4}, {1, 2, 1, 1}), zeros(4)},
                       {{"num_groups", int64_t{2}}, {"epsilon", 0.0}});
  EXPECT_EQ(y->to_reals(), (Reals{-1, 2, -1, 1}));
  for (int64_t groups : {int64_t{3}, int64_t{0}, int64_t{-1}, INT64_MIN})
    EXPECT_FALSE(apply("group_normalization", {x, ones(4), zeros(4)}, {{"num_groups", groups}}).ok()) << groups;
}

TEST(RmsNormalization, DividesByTheRoot) {
  EXPECT_EQ(apply("rms_normalization", {reals({2}, {3, 3}), reals({2}, {1, 2})}, {{"epsilon", 0.0}})->to_reals(),
            (Reals{1, 2}));
}

TEST(Lrn, WindowsAreCutAtTheEndsHoweverWide) {
  const auto x = reals({1, 3}, {1, 2, 3});
  const ir::Attrs near{{"size", int64_t{2}}, {"alpha", 2.0}, {"beta", 1.0}, {"bias", 0.0}};
  const Reals y = apply("lrn", {x}, near)->to_reals();
  EXPECT_NEAR(y[0], 1.0 / 5, 1e-6);
  EXPECT_NEAR(y[2], 3.0 / 9, 1e-6);
  EXPECT_TRUE(apply("lrn", {x}, {{"size", INT64_MAX}}).ok());
  for (int64_t size : {int64_t{0}, int64_t{-5}, INT64_MIN}) EXPECT_FALSE(apply("lrn", {x}, {{"size", size}}).ok());
}

TEST(LpNormalization, ZerosStayZeros) {
  EXPECT_EQ(apply("lp_normalization", {reals({2, 2}, {3, 4, 0, 0})})->to_reals(),
            (Reals{static_cast<float>(0.6), static_cast<float>(0.8), 0, 0}));
  EXPECT_FALSE(apply("lp_normalization", {ones(2)}, {{"p", int64_t{3}}}).ok());
}

TEST(Losses, IgnoredLabelsNeedNotBeClasses) {
  const auto x = reals({3, 2}, {-1, -2, -3, -4, -5, -6});
  const auto labels = integers({3}, {0, -100, 1}, DType::I64);
  const ir::Attrs ignore{{"ignore_index", int64_t{-100}}};
  EXPECT_EQ(apply("negative_log_likelihood_loss", {x, labels}, ignore)->to_reals(), Reals{3.5});
  EXPECT_FALSE(apply("negative_log_likelihood_loss", {x, labels}).ok());
  const auto weighted = apply("negative_log_likelihood_loss", {x, labels, reals({2}, {1, 3})}, ignore);
  EXPECT_EQ(weighted->to_reals(), Reals{(1 + 18) / 4.0});
  EXPECT_FALSE(apply("negative_log_likelihood_loss", {x, labels}, {{"reduction", std::string("max")}}).ok());
  EXPECT_FALSE(apply("negative_log_likelihood_loss", {x, integers({2}, {0, 1}, DType::I64)}).ok());
}

TEST(Losses, CrossEntropyOfLargeScores) {
  const auto out =
      apply_all("softmax_cross_entropy_loss", {reals({1, 2}, {1000, 0}), integers({1}, {1}, DType::I64)}, {}, 2);
  ASSERT_TRUE(out.ok()) << out.error().to_string();
  EXPECT_EQ(out->at(0).to_reals(), Reals{1000});
  EXPECT_EQ(out->at(1).to_reals(), (Reals{0, -1000}));
}

}  // namespace
}  // namespace isomer::ops
