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

Ints ints_of(const Expected<Tensor>& t) { return t.ok() ? t->to_ints() : Ints{-999}; }
Reals reals_of(const Expected<Tensor>& t) { return t.ok() ? t->to_reals() : Reals{-999}; }

TEST(Arithmetic, IntegerDivisionTruncatesAndZeroIsAnError) {
  EXPECT_EQ(ints_of(apply("div", {integers({4}, {7, -7, 7, -7}), integers({4}, {2, 2, -2, -2})})),
            (Ints{3, -3, -3, 3}));
  const auto zero = apply("div", {integers({1}, {1}), integers({1}, {0})});
  ASSERT_FALSE(zero.ok());
  EXPECT_FALSE(zero.error().message.empty());
  EXPECT_EQ(ints_of(apply("div", {integers({1}, {INT32_MIN}), integers({1}, {-1})})), Ints{INT32_MIN});
}

TEST(Arithmetic, IntegersWrapToTheirType) {
  EXPECT_EQ(ints_of(apply("add", {integers({1}, {250}, DType::U8), integers({1}, {10}, DType::U8)})), Ints{4});
  EXPECT_EQ(ints_of(apply("mul", {integers({1}, {100}, DType::I8), integers({1}, {2}, DType::I8)})), Ints{-56});
  EXPECT_EQ(ints_of(apply("neg", {integers({1}, {-128}, DType::I8)})), Ints{-128});
}

TEST(Arithmetic, ModFollowsTheDivisorUnlessFmod) {
  const auto a = integers({4}, {5, -5, 5, -5}), b = integers({4}, {3, 3, -3, -3});
  EXPECT_EQ(ints_of(apply("mod", {a, b})), (Ints{2, 1, -1, -2}));
  EXPECT_EQ(ints_of(apply("mod", {a, b}, {{"fmod", int64_t{1}}})), (Ints{2, -2, 2, -2}));
  const auto rest = apply("mod", {reals({5}, {-4.5, 4.5, -4.5, 4, -1}), reals({5}, {2, -2, -2, 2, INFINITY})});
  ASSERT_TRUE(rest.ok()) << rest.error().to_string();
  EXPECT_EQ(rest->to_reals(), (std::vector<double>{1.5, -1.5, -0.5, 0, INFINITY}));
  EXPECT_FALSE(apply("mod", {a, integers({}, {0})}).ok());
}

TEST(Arithmetic, PowKeepsTheTypeOfTheBase) {
  EXPECT_EQ(ints_of(apply("pow", {integers({2}, {2, 3}), reals({2}, {3, 0.5})})), (Ints{8, 1}));
  EXPECT_EQ(reals_of(apply("pow", {reals({2}, {2, 3}), integers({2}, {-1, 2}, DType::I64)})), (Reals{0.5, 9}));
  EXPECT_EQ(ints_of(apply("pow", {integers({3}, {2, 1, -1}), integers({}, {-3}, DType::I64)})), (Ints{0, 1, -1}));
}

TEST(Arithmetic, BroadcastsScalarsAndEmptyTensors) {
  const auto empty = apply("add", {reals({0, 3}, {}), reals({1}, {1})});
  ASSERT_TRUE(empty.ok());
  EXPECT_EQ(empty->dims(), (Ints{0, 3}));
  EXPECT_EQ(reals_of(apply("add", {reals({}, {1}), reals({}, {2})})), Reals{3});
  EXPECT_FALSE(apply("add", {reals({2}, {1, 2}), reals({3}, {1, 2, 3})}).ok());
  EXPECT_FALSE(apply("add", {reals({0}, {}), reals({3}, {1, 2, 3})}).ok());
}

TEST(UnaryMath, SignKeepsNanAndKnowsUnsigned) {
  const Reals s = reals_of(apply("sign", {reals({4}, {-2, 0, 5, kNan})}));
  EXPECT_EQ(Reals(s.begin(), s.begin() + 3), (Reals{-1, 0, 1}));
  EXPECT_TRUE(std::isnan(s[3]));
  EXPECT_EQ(ints_of(apply("sign", {integers({2}, {0, 200}, DType::U8)})), (Ints{0, 1}));
  EXPECT_EQ(ints_of(apply("sign", {integers({2}, {-7, 7})})), (Ints{-1, 1}));
}

TEST(UnaryMath, RoundIsToEven) {
  EXPECT_EQ(reals_of(apply("round", {reals({5}, {0.5, 1.5, 2.5, -0.5, -1.5})})), (Reals{0, 2, 2, -0.0, -2}));
}

TEST(Compare, NanIsNeverOrdered) {
  const auto nan = reals({1}, {kNan}), one = reals({1}, {1});
  for (const char* op : {"less", "less_or_equal", "greater", "greater_or_equal", "equal"})
    EXPECT_EQ(ints_of(apply(op, {nan, one})), Ints{0}) << op;
  EXPECT_EQ(ints_of(apply("is_nan", {nan})), Ints{1});
}

TEST(Compare, IsInfBySign) {
  const auto x = reals({3}, {-kInf, 1, kInf});
  EXPECT_EQ(ints_of(apply("is_inf", {x})), (Ints{1, 0, 1}));
  EXPECT_EQ(ints_of(apply("is_inf", {x}, {{"detect_negative", int64_t{0}}})), (Ints{0, 0, 1}));
  EXPECT_EQ(ints_of(apply("is_inf", {x}, {{"detect_positive", int64_t{0}}})), (Ints{1, 0, 0}));
  EXPECT_EQ(ints_of(apply("is_inf", {x}, {{"detect_positive", int64_t{0}}, {"detect_negative", int64_t{0}}})),
            (Ints{0, 0, 0}));
}

TEST(Compare, UnsignedWideNumbersCompareAsUnsigned) {
  const auto big = integers({1}, {-1}, DType::U64), one = integers({1}, {1}, DType::U64);
  EXPECT_EQ(ints_of(apply("greater", {big, one})), Ints{1});
  EXPECT_EQ(ints_of(apply("max", {big, one})), Ints{-1});
}

TEST(Logic, BitShiftChecksItsDirection) {
  const auto x = integers({2}, {1, 255}, DType::U8), by = integers({2}, {9, 4}, DType::U8);
  EXPECT_EQ(ints_of(apply("bit_shift", {x, by}, {{"direction", std::string("LEFT")}})), (Ints{0, 240}));
  EXPECT_EQ(ints_of(apply("bit_shift", {x, by}, {{"direction", std::string("RIGHT")}})), (Ints{0, 15}));
  EXPECT_FALSE(apply("bit_shift", {x, by}, {{"direction", std::string("UP")}}).ok());
  EXPECT_FALSE(apply("bit_shift", {x, by}).ok());
}

TEST(Logic, BitsOfSignedNumbers) {
  EXPECT_EQ(ints_of(apply("bitwise_not", {integers({2}, {0, -6}, DType::I8)})), (Ints{-1, 5}));
  EXPECT_EQ(ints_of(apply("bitwise_xor", {integers({}, {6}), integers({2}, {3, -1})})), (Ints{5, -7}));
}

TEST(Variadic, NanWinsAndEmptyInputsAreRefused) {
  const Reals m = reals_of(apply("max", {reals({2}, {1, kNan}), reals({2}, {kNan, 2}), reals({}, {5})}));
  EXPECT_TRUE(std::isnan(m[0]) && std::isnan(m[1]));
  EXPECT_EQ(reals_of(apply("mean", {reals({2}, {1, 2}), reals({2}, {3, 6})})), (Reals{2, 4}));
  EXPECT_FALSE(apply("sum", {}).ok());
  EXPECT_FALSE(apply("sum", {reals({1}, {1}), std::nullopt, reals({1}, {1})}).ok());
}

TEST(Clip, BoundsAreOptionalAndTheUpperWins) {
  const auto x = integers({3}, {-5, 0, 5});
  EXPECT_EQ(ints_of(apply("clip", {x, std::nullopt, integers({}, {1})})), (Ints{-5, 0, 1}));
  EXPECT_EQ(ints_of(apply("clip", {x, integers({}, {3}), integers({}, {1})})), (Ints{1, 1, 1}));
  EXPECT_EQ(ints_of(apply("clip", {x})), (Ints{-5, 0, 5}));
  EXPECT_FALSE(apply("clip", {x, integers({2}, {1, 2})}).ok());
}

TEST(Cast, FollowsTheTypes) {
  const auto to = [](DType t) { return ir::Attrs{{"to", t}}; };
  EXPECT_EQ(ints_of(apply("cast", {reals({4}, {-1.7, 300, kNan, kInf})}, to(DType::U8))), (Ints{0, 255, 0, 255}));
  EXPECT_EQ(ints_of(apply("cast", {reals({4}, {0, 0.25, kNan, -0.0})}, to(DType::Bool))), (Ints{0, 1, 1, 0}));
  EXPECT_EQ(ints_of(apply("cast", {integers({2}, {256, 2})}, to(DType::Bool))), (Ints{1, 1}));
  EXPECT_EQ(ints_of(apply("cast", {integers({2}, {300, -1})}, to(DType::U8))), (Ints{44, 255}));
  EXPECT_EQ(reals_of(apply("cast", {reals({1}, {1e6})}, to(DType::F16))), Reals{kInf});
  EXPECT_FALSE(apply("cast", {reals({1}, {1})}, to(DType::Opaque)).ok());
  EXPECT_FALSE(apply("cast", {reals({1}, {1})}).ok());
}

TEST(Activations, StayFiniteAtTheEnds) {
  const auto x = reals({4}, {-1e30, -800, 800, 1e30});
  EXPECT_EQ(reals_of(apply("sigmoid", {x})), (Reals{0, 0, 1, 1}));
  EXPECT_EQ(reals_of(apply("softplus", {x})), (Reals{0, 0, 800, static_cast<float>(1e30)}));
  EXPECT_EQ(reals_of(apply("elu", {x})), (Reals{-1, -1, 800, static_cast<float>(1e30)}));
  const Reals mish = reals_of(apply("mish", {x}));
  EXPECT_EQ(mish[2], 800);
  EXPECT_EQ(mish[1], 0);
  for (const char* op : {"relu", "elu", "selu", "celu", "mish", "gelu", "softplus", "leaky_relu", "hard_sigmoid"})
    EXPECT_TRUE(std::isnan(reals_of(apply(op, {reals({1}, {kNan})}))[0])) << op;
}

TEST(Activations, SlopesBroadcastOneWay) {
  EXPECT_EQ(reals_of(apply("prelu", {reals({2, 2}, {-1, -1, -1, 1}), reals({2}, {2, 3})})), (Reals{-2, -3, -2, 1}));
  EXPECT_FALSE(apply("prelu", {reals({2}, {1, 1}), reals({2, 2}, {1, 1, 1, 1})}).ok());
}

TEST(Activations, GeluNamesItsApproximations) {
  EXPECT_NEAR(reals_of(apply("gelu", {reals({1}, {1})}))[0], 0.8413447, 1e-6);
  EXPECT_NEAR(reals_of(apply("gelu", {reals({1}, {1})}, {{"approximate", std::string("tanh")}}))[0], 0.841192, 1e-5);
  EXPECT_FALSE(apply("gelu", {reals({1}, {1})}, {{"approximate", std::string("cubic")}}).ok());
}

TEST(Dropout, IsTheIdentityOrAnError) {
  const auto x = reals({2}, {1, 2}), none = reals({}, {0}), half = reals({}, {0.5});
  const auto yes = integers({}, {1}, DType::Bool), no = integers({}, {0}, DType::Bool);
  const auto both = apply_all("dropout", {x, half, no}, {}, 2);
  ASSERT_TRUE(both.ok());
  EXPECT_EQ(both->at(0).to_reals(), (Reals{1, 2}));
  EXPECT_EQ(both->at(1).to_ints(), (Ints{1, 1}));
  EXPECT_TRUE(apply("dropout", {x, none, yes}).ok());
  for (const auto& bad : {apply("dropout", {x, half, yes}), apply("dropout", {x, std::nullopt, yes})}) {
    ASSERT_FALSE(bad.ok());
    EXPECT_NE(bad.error().message.find("training"), std::string::npos);
  }
}

}  // namespace
}  // namespace isomer::ops
