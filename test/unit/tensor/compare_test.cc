#include "tensor/compare.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tensor/random_fill.h"

namespace isomer {
namespace {

Tensor floats(std::vector<double> v) { return Tensor::of<double>(DType::F64, {static_cast<int64_t>(v.size())}, v); }

TEST(Compare, CountsElementsOutsideTheTolerance) {
  const Comparison c = compare(floats({1, 2.1, 3}), floats({1, 2, 4}), {0.05, 0.05});
  EXPECT_FALSE(c.ok());
  EXPECT_EQ(c.mismatches, 1);
  EXPECT_EQ(c.first_mismatch, 2);
  EXPECT_DOUBLE_EQ(c.max_abs_error, 1);
  EXPECT_DOUBLE_EQ(c.max_rel_error, 0.25);
  EXPECT_DOUBLE_EQ(c.error_of_largest, 0.25);
  EXPECT_NE(c.to_string().find("1 of 3 elements differ, first at [2]: expected 4, found 3"), std::string::npos);
}

TEST(Compare, SpecialValuesAgreeOnlyWithThemselves) {
  const double inf = std::numeric_limits<double>::infinity(), nan = std::nan("");
  EXPECT_TRUE(compare(floats({nan, inf, -inf}), floats({nan, inf, -inf})).ok());
  const Comparison c = compare(floats({nan, inf, 1, inf}), floats({1, -inf, nan, 1}), {1e9, 1e9});
  EXPECT_EQ(c.mismatches, 4);
  EXPECT_EQ(c.special_mismatches, 4);
  EXPECT_EQ(c.max_abs_error, 0);
}

TEST(Compare, IntegersAreExactInAllTheirBits) {
  const int64_t big = (int64_t{1} << 53) + 1;
  const Comparison c = compare(Tensor::ints({big}), Tensor::ints({big - 1}), {100, 100});
  EXPECT_EQ(c.mismatches, 1);
  EXPECT_TRUE(compare(Tensor::ints({big}), Tensor::ints({big})).ok());
}

TEST(Compare, ShapesAndKindsMustAgree) {
  EXPECT_FALSE(compare(floats({1}), floats({1, 2})).comparable);
  EXPECT_FALSE(compare(Tensor::ints({1}), floats({1})).comparable);
  EXPECT_FALSE(compare(Tensor::ints({1}), Tensor::ints({1}).cast(DType::I32)).comparable);
  EXPECT_TRUE(compare(floats({1}).cast(DType::F32), floats({1})).ok());
}

TEST(RandomFill, IsTheSameForOneSeedAndStaysInRange) {
  for (DType t : kAllDTypes) {
    Random a(3), b(3);
    const FillRange range{-2, 2, -300, 300};
    const Tensor x = random_tensor(t, {1000}, a, range), y = random_tensor(t, {1000}, b, range);
    EXPECT_EQ(x, y);
    for (int64_t i = 0; i < x.size(); ++i) {
      EXPECT_GE(x.real(i), is_float(t) ? -2 : -300);
      EXPECT_LE(x.real(i), is_float(t) ? 2 : 300);
    }
  }
  Random r(1);
  random_tensor(DType::I64, {10}, r, {0, 1, INT64_MIN, INT64_MAX});
}

}  // namespace
}  // namespace isomer
