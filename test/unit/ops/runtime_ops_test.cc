// Operators of ONNX Runtime's own domain against the standard ones they stand for.
#include <gtest/gtest.h>

#include <cmath>

#include "test/unit/ops/call.h"

namespace isomer {
namespace {

using test::Arg;
using test::call;
using test::counting;
using test::floats;
using test::show;

Tensor bytes(std::vector<int64_t> dims, const std::vector<int64_t>& values) {
  return Tensor::of(DType::I8, std::move(dims), values);
}

constexpr float kScale = 0.5;  // of the input weights below, whose zero point is 1

// An lstm with one hidden number: weights are stored by column here, [directions, inputs, 4 * hidden].
Expected<std::vector<Tensor>> quantised(const Tensor& x, std::vector<Arg> parameters) {
  const Tensor w = bytes({1, 2, 4}, {1, 2, 3, 4, 5, 6, 7, 8}), r = bytes({1, 1, 4}, {-1, 2, -3, 4});
  std::vector<Arg> in = {x, w, r, std::nullopt, std::nullopt, std::nullopt, std::nullopt, std::nullopt};
  in.insert(in.end(), parameters.begin(), parameters.end());
  return call("ms_dynamic_quantize_lstm", in, {{"hidden_size", int64_t{1}}}, 3);
}

std::vector<Arg> one_for_all() {
  return {floats({1}, {kScale}), bytes({1}, {1}), floats({1}, {0.25}), bytes({1}, {0})};
}

// The same weights as reals.
Expected<std::vector<Tensor>> plain(const Tensor& x) {
  return call("lstm",
              {x, floats({1, 4, 2}, {0, 2, 0.5, 2.5, 1, 3, 1.5, 3.5}), floats({1, 4, 1}, {-0.25, 0.5, -0.75, 1})}, {},
              3);
}

void expect_near(const Expected<std::vector<Tensor>>& a, const Expected<std::vector<Tensor>>& b) {
  ASSERT_TRUE(a.ok()) << a.error().to_string();
  ASSERT_TRUE(b.ok()) << b.error().to_string();
  for (size_t k : {0, 1, 2})
    for (int64_t i = 0; i < b->at(k).size(); ++i)
      EXPECT_NEAR(a->at(k).real(i), b->at(k).real(i), 1e-6) << k << " " << i;
}

// Bytes of a range of 255/64 hold these inputs as they are, and a state of one number always.
TEST(DynamicQuantizeLstm, IsLstmOfTheRealWeightsWhereBytesHoldTheInputs) {
  const Tensor x = floats({2, 1, 2}, {127.0 / 64, -2, 0.25, 1});
  expect_near(quantised(x, one_for_all()), plain(x));
  expect_near(quantised(x, {floats({1, 4}, {0.5, 0.5, 0.5, 0.5}), bytes({1, 4}, {1, 1, 1, 1}),
                            floats({1, 4}, {0.25, 0.25, 0.25, 0.25}), bytes({1, 4}, {0, 0, 0, 0})}),
              plain(x));
  std::vector<Arg> wrong = one_for_all();
  wrong[0] = floats({}, {kScale});
  EXPECT_FALSE(quantised(x, wrong).ok());
}

TEST(DynamicQuantizeLstm, RoundsTheInputsOfAllStepsByOneRange) {
  const Tensor x = floats({2, 1, 2}, {1, -0.013, 0.307, 2});
  const auto q = call("dynamic_quantize_linear", {x}, {}, 3);
  ASSERT_TRUE(q.ok()) << q.error().to_string();
  const auto rounded = call("dequantize_linear", {q->at(0), q->at(1), q->at(2)});
  ASSERT_TRUE(rounded.ok()) << rounded.error().to_string();
  const auto y = quantised(x, one_for_all());
  expect_near(y, plain(rounded->at(0)));
  EXPECT_GT(std::abs(y->at(0).real(0) - plain(x)->at(0).real(0)), 1e-4);
}

TEST(BiasSplitGelu, GatesTheFirstHalfByTheSecond) {
  const auto gate = call("gelu", {floats({1, 1}, {3})});
  ASSERT_TRUE(gate.ok());
  const auto y = call("ms_bias_split_gelu", {floats({1, 2}, {1, 2}), floats({2}, {1, 1})});
  ASSERT_TRUE(y.ok()) << y.error().to_string();
  EXPECT_EQ(y->at(0).dims(), (std::vector<int64_t>{1, 1}));
  EXPECT_NEAR(y->at(0).real(0), 2 * gate->at(0).real(0), 1e-6);
  EXPECT_FALSE(call("ms_bias_split_gelu", {counting({1, 3}), counting({3})}).ok());
  EXPECT_FALSE(call("ms_bias_split_gelu", {counting({1, 4}), counting({2})}).ok());
}

TEST(NhwcMaxPool, PoolsWithChannelsLast) {
  EXPECT_EQ(show(call("ms_nhwc_max_pool", {counting({1, 4, 2}, DType::U8)},
                      {{"kernel_shape", std::vector<int64_t>{2}}, {"strides", std::vector<int64_t>{2}}})),
            "u8[1,2,2] 2 3 6 7");
  EXPECT_FALSE(
      call("ms_nhwc_max_pool", {counting({4, 2}, DType::U8)}, {{"kernel_shape", std::vector<int64_t>{2}}}).ok());
}

}  // namespace
}  // namespace isomer
