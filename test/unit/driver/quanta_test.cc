// Roundings to few bits, each by itself: what lies between two quanta may fall either way, and nothing else may.
#include "driver/quanta.h"

#include <gtest/gtest.h>

#include "ir/text.h"
#include "ops/table.h"
#include "tensor/random_fill.h"

namespace isomer {
namespace {

driver::RoundedValue judge(const std::vector<int>& found, const std::vector<double>& numbers) {
  Tensor q(DType::U8, {static_cast<int64_t>(found.size())}), r(DType::F64, q.dims());
  for (size_t i = 0; i < found.size(); ++i) {
    q.set_integer(static_cast<int64_t>(i), found[i]);
    r.set_real(static_cast<int64_t>(i), numbers[i]);
  }
  return driver::judged("y", q, r, 1e-4);
}

TEST(Quanta, OnlyWhatLiesBetweenTwoMayFallEitherWay) {
  // The largest is 200: numbers may be 0.02 quanta off.
  const auto tie = judge({200, 3, 4, 3, 4}, {200, 3.5, 3.5, 3.51, 3.49});
  EXPECT_EQ(tie.wrong, 0);
  EXPECT_EQ(tie.moved, 3);  // 3.5 is 4
  EXPECT_EQ(judge({200, 3}, {200, 3.53}).wrong, 1);
  EXPECT_EQ(judge({200, 5}, {200, 3.5}).wrong, 1);
  // A network of floats with one rounding at its end is not excused: an error of 1e-3 is one here as it is there.
  EXPECT_EQ(judge({200, 101}, {200, 100.4}).wrong, 1);
  // Beyond the ends all is one.
  EXPECT_EQ(judge({255, 0, 0}, {300, -7, -1e9}).moved, 0);
  EXPECT_EQ(judge({254, 0}, {300, -7}).wrong, 1);
}

Expected<std::optional<driver::Quanta>> quanta_of(const std::string& text) {
  auto g = ir::parse(text, ops::table());
  if (!g.ok()) return g.error();
  Random random(3);
  std::vector<Tensor> inputs;
  for (const ir::Node& n : g->inputs())
    inputs.push_back(random_tensor(n.types[0].dtype, n.types[0].shape.values(), random, {.int_high = 255}));
  driver::ExecutorOptions compiled, naive;
  naive.native.naive = true;
  naive.optimise = false;
  return driver::quanta(*g, inputs, compiled, naive, 1e-4);
}

TEST(Quanta, EveryRoundingOfANetwork) {
  const auto q = quanta_of(
      "graph @g(%x: f32[1,8,9,9], %v: f32[8,8,3,3], %w: f32[4,8,1,1]) { %a = quantize_linear(%x, const f32[] 0.01, "
      "const u8[] 128) "
      "%b = dequantize_linear(%a, const f32[] 0.01, const u8[] 128) %c = relu(conv(%b, %v){pads=[1,1,1,1]}) "
      "%d, %s, %z = dynamic_quantize_linear(%c) %e = dequantize_linear(%d, %s, %z) return conv(%e, %w), %d }");
  ASSERT_TRUE(q.ok()) << q.error().to_string();
  ASSERT_TRUE(q->has_value());
  EXPECT_EQ((*q)->values.size(), 3u);  // the bytes, the bytes and their zero point
  EXPECT_EQ((*q)->wrong(), 0);
  EXPECT_EQ((*q)->elements(), 2 * 8 * 81 + 1);
  ASSERT_TRUE((*q)->found[0] && (*q)->expected[0]);
  EXPECT_FALSE((*q)->found[1]);  // rounded itself
}

TEST(Quanta, NothingIsRounded) {
  const auto q = quanta_of("graph @g(%x: f32[4,4]) { return relu(%x), cast(%x){to=i32} }");
  ASSERT_TRUE(q.ok()) << q.error().to_string();
  EXPECT_FALSE(q->has_value());
}

}  // namespace
}  // namespace isomer
