// Quantised operators of ONNX Runtime's domain against what they stand for.
#include <gtest/gtest.h>

#include "test/unit/ops/apply.h"

namespace isomer::ops {
namespace {

const Tensor kIn = reals({}, {0.1}), kOut = reals({}, {0.05});

TEST(QuantisedPools, TakeChannelsInFrontOrBehind) {
  const Tensor zero = integers({}, {0}, DType::U8);
  const Tensor front = integers({1, 2, 2}, {10, 20, 30, 50}, DType::U8);
  const Tensor behind = integers({1, 2, 2}, {10, 30, 20, 50}, DType::U8);
  const auto a = apply("ms_qlinear_global_average_pool", {front, kIn, zero, kOut, zero});
  const auto b =
      apply("ms_qlinear_global_average_pool", {behind, kIn, zero, kOut, zero}, {{"channels_last", int64_t{1}}});
  ASSERT_TRUE(a.ok()) << a.error().to_string();
  ASSERT_TRUE(b.ok()) << b.error().to_string();
  EXPECT_EQ(a->dims(), (std::vector<int64_t>{1, 2, 1}));
  EXPECT_EQ(b->dims(), (std::vector<int64_t>{1, 1, 2}));
  EXPECT_EQ(a->to_ints(), (std::vector<int64_t>{30, 80}));
  EXPECT_EQ(b->to_ints(), a->to_ints());
}

TEST(QuantisedSoftmax, TakesAllAxesAsOneBeforeOpset13) {
  const Tensor x = integers({1, 2, 2}, {0, 0, 0, 0}, DType::U8), zero = integers({}, {0}, DType::U8);
  for (const auto& [opset, each] : {std::pair<int64_t, int64_t>{12, 5}, {13, 10}}) {
    const auto y = apply("ms_qlinear_softmax", {x, kIn, zero, kOut, zero}, {{"axis", int64_t{1}}, {"opset", opset}});
    ASSERT_TRUE(y.ok()) << y.error().to_string();
    EXPECT_EQ(y->dims(), (std::vector<int64_t>{1, 2, 2}));
    EXPECT_EQ(y->to_ints(), std::vector<int64_t>(4, each));
  }
}

}  // namespace
}  // namespace isomer::ops
