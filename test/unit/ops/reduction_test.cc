#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "apply.h"

namespace isomer::ops {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
using Ints = std::vector<int64_t>;
using Reals = std::vector<double>;

Tensor axes(const Ints& a) { return Tensor::ints(a); }
Tensor matrix() { return reals({2, 3}, {1, 2, 3, 4, 5, 6}); }

struct Empty {
  const char* op;
  double value;
};

TEST(Reduce, EmptySetsGiveTheNeutralValue) {
  for (const Empty& e : {Empty{"reduce_sum", 0},
                         {"reduce_prod", 1},
                         {"reduce_max", -kInf},
                         {"reduce_min", kInf},
                         {"reduce_l1", 0},
                         {"reduce_l2", 0},
                         {"reduce_log_sum", -kInf},
                         {"reduce_log_sum_exp", -kInf},
                         {"reduce_sum_square", 0}}) {
    const auto y = apply(e.op, {reals({2, 0, 3}, {}), axes({1})});
    ASSERT_TRUE(y.ok()) << e.op << y.error().to_string();
    EXPECT_EQ(y->dims(), (Ints{2, 1, 3})) << e.op;
    EXPECT_EQ(y->to_reals(), Reals(6, e.value)) << e.op;
  }
  const auto mean = apply("reduce_mean", {reals({0}, {}), axes({0})});
  EXPECT_TRUE(std::isnan(mean->to_reals()[0]));
  EXPECT_FALSE(apply("reduce_mean", {integers({0}, {}), axes({0})}).ok());
  EXPECT_EQ(apply("reduce_max", {integers({0}, {}, DType::U8)})->to_ints(), Ints{0});
}

TEST(Reduce, AxesMayBeAbsentEmptyOrNegative) {
  EXPECT_EQ(apply("reduce_sum", {matrix()}, {{"keepdims", int64_t{0}}})->dims(), Ints{});
  EXPECT_EQ(apply("reduce_sum", {matrix(), axes({})})->to_reals(), Reals{21});
  EXPECT_EQ(apply("reduce_sum", {matrix(), axes({})}, {{"noop_with_empty_axes", int64_t{1}}})->to_reals(),
            matrix().to_reals());
  // Every element is a set of its own: what is done before and after a reduction still happens.
  EXPECT_EQ(apply("reduce_sum_square", {matrix()}, {{"noop_with_empty_axes", int64_t{1}}})->to_reals(),
            (Reals{1, 4, 9, 16, 25, 36}));
  EXPECT_EQ(apply("reduce_l1", {reals({2}, {-3, 2})}, {{"noop_with_empty_axes", int64_t{1}}, {"keepdims", int64_t{0}}})
                ->to_reals(),
            (Reals{3, 2}));
  const auto rows = apply("reduce_sum", {matrix(), axes({-1})}, {{"keepdims", int64_t{0}}});
  EXPECT_EQ(rows->dims(), Ints{2});
  EXPECT_EQ(rows->to_reals(), (Reals{6, 15}));
  EXPECT_EQ(apply("reduce_max", {reals({}, {3})})->to_reals(), Reals{3});
}

TEST(Reduce, WrongAxesAreRefused) {
  EXPECT_FALSE(apply("reduce_sum", {matrix(), axes({2})}).ok());
  EXPECT_FALSE(apply("reduce_sum", {matrix(), axes({-3})}).ok());
  EXPECT_FALSE(apply("reduce_sum", {matrix(), axes({1, -1})}).ok());
  EXPECT_FALSE(apply("reduce_sum", {matrix(), axes({INT64_MIN})}).ok());
  EXPECT_FALSE(apply("reduce_sum", {matrix(), integers({1, 1}, {0}, DType::I64)}).ok());
}

TEST(Reduce, LogSumExpNeitherOverflowsNorLosesInfinities) {
  const auto y =
      apply("reduce_log_sum_exp", {reals({4, 2}, {1000, 1000, -1000, -1000, kInf, 0, -kInf, -kInf}), axes({1})},
            {{"keepdims", int64_t{0}}});
  ASSERT_TRUE(y.ok());
  const Reals v = y->to_reals();
  EXPECT_NEAR(v[0], 1000 + std::log(2), 1e-3);
  EXPECT_NEAR(v[1], -1000 + std::log(2), 1e-3);
  EXPECT_EQ(v[2], kInf);
  EXPECT_EQ(v[3], -kInf);
}

TEST(Reduce, NanPropagatesAndBoolsAreOrdered) {
  EXPECT_TRUE(std::isnan(apply("reduce_max", {reals({2}, {kNan, 1})})->to_reals()[0]));
  EXPECT_EQ(apply("reduce_max", {integers({2}, {0, 1}, DType::Bool)})->to_ints(), Ints{1});
  EXPECT_EQ(apply("reduce_min", {integers({2}, {0, 1}, DType::Bool)})->to_ints(), Ints{0});
}

TEST(Reduce, HalfPrecisionAccumulatesWide) {
  const auto y = apply("reduce_mean", {reals({40000}, Reals(40000, 3), DType::F16)});
  EXPECT_EQ(y->to_reals(), Reals{3});
  EXPECT_EQ(apply("reduce_l2", {reals({2}, {24000, 32000}, DType::F16)})->to_reals(), Reals{40000});
}

TEST(ArgReduce, TiesNansAndEmptyAxes) {
  const auto x = integers({2, 3}, {1, 3, 3, 2, 2, 1});
  EXPECT_EQ(apply("arg_max", {x}, {{"axis", int64_t{1}}, {"keepdims", int64_t{0}}})->to_ints(), (Ints{1, 0}));
  EXPECT_EQ(apply("arg_max", {x}, {{"axis", int64_t{-1}}, {"select_last_index", int64_t{1}}})->to_ints(), (Ints{2, 1}));
  EXPECT_EQ(apply("arg_min", {reals({3}, {1, kNan, 0})})->to_ints(), Ints{1});
  EXPECT_FALSE(apply("arg_max", {reals({2, 0}, {})}, {{"axis", int64_t{1}}}).ok());
  EXPECT_EQ(apply("arg_max", {reals({2, 0}, {})}, {{"axis", int64_t{0}}})->dims(), (Ints{1, 0}));
  EXPECT_FALSE(apply("arg_max", {x}, {{"axis", int64_t{2}}}).ok());
  EXPECT_FALSE(apply("arg_max", {reals({}, {1})}).ok());
}

TEST(Softmax, IsStableAndChecksItsAxis) {
  const Reals y = apply("softmax", {reals({3}, {1e4, 1e4, -1e4})})->to_reals();
  EXPECT_EQ(y, (Reals{0.5, 0.5, 0}));
  EXPECT_NEAR(apply("log_softmax", {reals({2}, {1e4, 0})})->to_reals()[1], -1e4, 1e-3);
  EXPECT_EQ(apply("hardmax", {reals({4}, {1, 3, 3, 2})})->to_reals(), (Reals{0, 1, 0, 0}));
  EXPECT_FALSE(apply("softmax", {matrix()}, {{"axis", int64_t{2}}}).ok());
  EXPECT_FALSE(apply("softmax", {reals({}, {1})}).ok());
  EXPECT_EQ(apply("softmax", {reals({2, 0}, {})})->dims(), (Ints{2, 0}));
  EXPECT_EQ(apply("hardmax", {reals({0, 2}, {})})->dims(), (Ints{0, 2}));
}

}  // namespace
}  // namespace isomer::ops
