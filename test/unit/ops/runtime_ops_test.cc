// Operators of ONNX Runtime's own domain against the standard ones they stand for.
#include <gtest/gtest.h>

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

// Weights are stored by column here: [directions, inputs, 4 * hidden].
TEST(DynamicQuantizeLstm, IsLstmOfTheRealWeights) {
  const Tensor x = floats({2, 1, 2}, {1, -0.5, 0.25, 2});
  const Tensor w = bytes({1, 2, 4}, {1, 2, 3, 4, 5, 6, 7, 8}), r = bytes({1, 1, 4}, {-1, 2, -3, 4});
  const Tensor by_row = floats({1, 4, 2}, {0, 2, 0.5, 2.5, 1, 3, 1.5, 3.5});
  const Tensor recurrent = floats({1, 4, 1}, {-0.25, 0.5, -0.75, 1});
  const auto plain = call("lstm", {x, by_row, recurrent}, {}, 3);
  const std::vector<Arg> none(5, std::nullopt);
  std::vector<Arg> in = {x, w, r};
  in.insert(in.end(), none.begin(), none.end());
  std::vector<Arg> whole = in, columns = in;
  whole.insert(whole.end(), {floats({1}, {0.5}), bytes({1}, {1}), floats({1}, {0.25}), bytes({1}, {0})});
  columns.insert(columns.end(), {floats({1, 4}, {0.5, 0.5, 0.5, 0.5}), bytes({1, 4}, {1, 1, 1, 1}),
                                 floats({1, 4}, {0.25, 0.25, 0.25, 0.25}), bytes({1, 4}, {0, 0, 0, 0})});
  for (const auto& args : {whole, columns}) {
    const auto y = call("ms_dynamic_quantize_lstm", args, {{"hidden_size", int64_t{1}}}, 3);
    for (size_t k : {0, 1, 2}) EXPECT_EQ(show(y, k), show(plain, k));
  }
  whole[8] = floats({}, {0.5});
  EXPECT_FALSE(call("ms_dynamic_quantize_lstm", whole, {}, 3).ok());
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
