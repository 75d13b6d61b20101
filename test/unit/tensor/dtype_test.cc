#include "tensor/dtype.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "tensor/tensor.h"

namespace isomer {
namespace {

TEST(DType, EveryHalfPatternRoundTrips) {
  for (uint32_t i = 0; i < 65536; ++i) {
    const auto bits = static_cast<uint16_t>(i);
    const double h = half_to_double(bits), b = bfloat_to_double(bits);
    if (std::isnan(h))
      EXPECT_TRUE(std::isnan(half_to_double(half_from_double(h))));
    else
      EXPECT_EQ(half_from_double(h), bits);
    if (std::isnan(b))
      EXPECT_TRUE(std::isnan(bfloat_to_double(bfloat_from_double(b))));
    else
      EXPECT_EQ(bfloat_from_double(b), bits);
  }
}

TEST(DType, HalvesRoundToNearestWithTiesToEven) {
  for (uint16_t i = 0; i < 0x7BFF; ++i) {
    const double low = half_to_double(i), high = half_to_double(static_cast<uint16_t>(i + 1));
    const double middle = (low + high) / 2;  // exact in double
    EXPECT_EQ(half_from_double(middle), i % 2 == 0 ? i : i + 1);
    EXPECT_EQ(half_from_double(std::nextafter(middle, 0)), i);
    EXPECT_EQ(half_from_double(std::nextafter(middle, 1e9)), i + 1);
  }
  EXPECT_EQ(round_to(DType::F16, 65519.99), 65504);
  EXPECT_TRUE(std::isinf(round_to(DType::F16, 65520)));
  EXPECT_TRUE(std::signbit(round_to(DType::F16, -1e-30)));
}

TEST(DType, BfloatRoundsOnceFromDouble) {
  // Just above the middle between 1 and the next bf16: rounding through f32 would lose the bit that decides.
  EXPECT_EQ(round_to(DType::BF16, 1 + 0x1p-8 + 0x1p-40), 1 + 0x1p-7);
  EXPECT_EQ(round_to(DType::BF16, 1 + 0x1p-8), 1);
  EXPECT_EQ(round_to(DType::BF16, 1 + 3 * 0x1p-8), 1 + 0x1p-6);
}

TEST(DType, IntegersWrapAndCastsSaturate) {
  EXPECT_EQ(wrap_to(DType::I8, 200), -56);
  EXPECT_EQ(wrap_to(DType::U8, -1), 255);
  EXPECT_EQ(wrap_to(DType::Bool, 4), 1);
  EXPECT_EQ(int_from_real(DType::I8, 1e9), 127);
  EXPECT_EQ(int_from_real(DType::U8, -3.5), 0);
  EXPECT_EQ(int_from_real(DType::I64, 1e30), INT64_MAX);
  EXPECT_EQ(int_from_real(DType::I32, std::nan("")), 0);
  EXPECT_EQ(real_from_int(DType::U64, -1), 0x1p64);
}

TEST(Tensor, SizesAreCheckedAndCopiesShare) {
  EXPECT_FALSE(checked_elements(DType::F32, {-1}).ok());
  EXPECT_FALSE(checked_elements(DType::F32, {1 << 30, 1 << 30, 1 << 30}).ok());
  EXPECT_EQ(*checked_elements(DType::F32, {1 << 30, 1 << 30, 0}), 0);
  const Tensor a = Tensor::ints({1, 2, 3, 4});
  const Tensor b = a.reshaped({2, 2});
  EXPECT_EQ(a.bytes(), b.bytes());
  EXPECT_NE(a.content_hash(), b.content_hash());
  EXPECT_EQ(a.cast(DType::F32).cast(DType::I64), a);
}

}  // namespace
}  // namespace isomer
