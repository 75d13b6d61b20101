// Edge cases of the operators that read, write and pick by index.
#include <gtest/gtest.h>

#include "test/unit/ops/call.h"

namespace isomer::test {
namespace {

TEST(Gather, WrapsNegativeIndicesAndRefusesOthers) {
  EXPECT_EQ(show(call("gather", {counting({4}), ints({2}, {-1, -4})})), "f32[2] 3 0");
  EXPECT_FALSE(call("gather", {counting({4}), ints({1}, {4})}).ok());
  EXPECT_FALSE(call("gather", {counting({4}), ints({1}, {-5})}).ok());
  EXPECT_FALSE(call("gather", {counting({}), ints({1}, {0})}).ok());
  EXPECT_EQ(show(call("gather", {counting({0, 2}), ints({0}, {})})), "f32[0,2]");
  EXPECT_FALSE(call("gather", {counting({0, 2}), ints({1}, {0})}).ok());
  EXPECT_FALSE(call("gather_nd", {counting({2, 2}), ints({1, 3}, {0, 0, 0})}).ok());
  EXPECT_FALSE(call("gather_nd", {counting({2, 2}), ints({1, 1}, {0})}, {{"batch_dims", int64_t{2}}}).ok());
  EXPECT_FALSE(call("gather_elements", {counting({2, 2}), ints({1}, {0})}).ok());
}

TEST(Scatter, CombinesDuplicates) {
  const auto scatter = [](const char* reduction) {
    return show(call("scatter_elements", {floats({3}, {1, 2, 3}), ints({3}, {0, -3, 2}), floats({3}, {5, 4, 1})},
                     {{"reduction", std::string(reduction)}}));
  };
  EXPECT_EQ(scatter("none"), "f32[3] 4 2 1");
  EXPECT_EQ(scatter("add"), "f32[3] 10 2 4");
  EXPECT_EQ(scatter("mul"), "f32[3] 20 2 3");
  EXPECT_EQ(scatter("min"), "f32[3] 1 2 1");
  EXPECT_EQ(scatter("max"), "f32[3] 5 2 3");
  EXPECT_EQ(scatter("mean"), "scatter_elements: reduction 'mean' is none of none, add, mul, min, max");
  EXPECT_FALSE(call("scatter_elements", {counting({3}), ints({1}, {3}), counting({1})}).ok());
  EXPECT_FALSE(call("scatter_nd", {counting({3}), ints({1, 1}, {-4}), counting({1})}).ok());
  EXPECT_FALSE(call("scatter_nd", {counting({3}), ints({1, 1}, {0}), counting({2})}).ok());
}

TEST(TopK, ChecksKAndKeepsTiesInOrder) {
  const Tensor x = floats({5}, {1, 3, 3, NAN, 2});
  const auto out = call("top_k", {x, ints({1}, {4})}, {}, 2);
  EXPECT_EQ(show(out, 1), "i64[4] 3 1 2 4");
  EXPECT_EQ(show(call("top_k", {x, ints({1}, {0})}, {}, 2)), "f32[0]");
  EXPECT_EQ(show(call("top_k", {x, ints({1}, {6})}, {}, 2)), "top_k: k is 6, expected 0 to 5, the extent of axis 0");
  EXPECT_FALSE(call("top_k", {x, ints({1}, {-1})}, {}, 2).ok());
  const Tensor big = Tensor::of<int64_t>(DType::U64, {2}, {-1, 1});
  EXPECT_EQ(show(call("top_k", {big, ints({1}, {1})}, {}, 2), 1), "i64[1] 0");
}

TEST(NonZero, TakesScalarsAndEmptyTensors) {
  EXPECT_EQ(show(call("non_zero", {counting({2, 2})})), "i64[2,3] 0 1 1 1 0 1");
  EXPECT_EQ(show(call("non_zero", {counting({0, 2})})), "i64[2,0]");
  EXPECT_EQ(show(call("non_zero", {floats({}, {3})})), "i64[0,1]");
}

TEST(Unique, CountsInOrderOfFirstAppearance) {
  const auto out = call("unique", {ints({5}, {3, 1, 3, 2, 1})}, {{"sorted", int64_t{0}}}, 4);
  EXPECT_EQ(show(out, 0), "i64[3] 3 1 2");
  EXPECT_EQ(show(out, 1), "i64[3] 0 1 3");
  EXPECT_EQ(show(out, 2), "i64[5] 0 1 0 2 1");
  EXPECT_EQ(show(out, 3), "i64[3] 2 2 1");
  EXPECT_EQ(show(call("unique", {ints({0}, {})}, {}, 1)), "i64[0]");
}

TEST(Compress, ChecksItsCondition) {
  const Tensor mask = Tensor::of<int64_t>(DType::Bool, {3}, {0, 1, 1});
  EXPECT_EQ(show(call("compress", {counting({2, 3}), mask}, {{"axis", int64_t{1}}})), "f32[2,2] 1 2 4 5");
  EXPECT_EQ(show(call("compress", {counting({2, 3}), mask})), "f32[2] 1 2");
  EXPECT_FALSE(call("compress", {counting({2, 3}), mask}, {{"axis", int64_t{0}}}).ok());
}

TEST(CumSum, RunsBothWays) {
  const Tensor x = floats({3}, {1, 2, 3});
  const auto sum = [&](int64_t exclusive, int64_t reverse) {
    return show(call("cum_sum", {x, ints({}, {0})}, {{"exclusive", exclusive}, {"reverse", reverse}}));
  };
  EXPECT_EQ(sum(0, 0), "f32[3] 1 3 6");
  EXPECT_EQ(sum(1, 0), "f32[3] 0 1 3");
  EXPECT_EQ(sum(0, 1), "f32[3] 6 5 3");
  EXPECT_EQ(sum(1, 1), "f32[3] 5 3 0");
  EXPECT_FALSE(call("cum_sum", {x, ints({}, {1})}).ok());
}

TEST(CumProd, RunsBothWays) {
  const Tensor x = floats({3}, {2, 3, 4});
  EXPECT_EQ(show(call("cum_prod", {x, ints({}, {0})})), "f32[3] 2 6 24");
  EXPECT_EQ(show(call("cum_prod", {x, ints({}, {0})}, {{"exclusive", int64_t{1}}, {"reverse", int64_t{1}}})),
            "f32[3] 12 4 1");
}

TEST(TensorScatter, WritesEachSequenceFromItsOwnPlace) {
  const Tensor cache = counting({2, 3, 1}), fresh = floats({2, 2, 1}, {10, 11, 12, 13}), from = ints({2}, {1, 2});
  EXPECT_EQ(show(call("tensor_scatter", {cache, fresh, ints({2}, {1, 0})})), "f32[2,3,1] 0 10 11 12 13 5");
  EXPECT_EQ(show(call("tensor_scatter", {cache, fresh})), "f32[2,3,1] 10 11 2 12 13 5");
  EXPECT_EQ(show(call("tensor_scatter", {cache, fresh, from}, {{"mode", std::string("circular")}})),
            "f32[2,3,1] 0 10 11 13 4 12");
  EXPECT_FALSE(call("tensor_scatter", {cache, fresh}, {{"axis", int64_t{0}}}).ok());
  EXPECT_FALSE(call("tensor_scatter", {cache, fresh}, {{"mode", std::string("square")}}).ok());
}

TEST(Trilu, TakesFarDiagonals) {
  EXPECT_EQ(show(call("trilu", {counting({2, 2}), ints({}, {INT64_MAX})})), "f32[2,2] 0 0 0 0");
  EXPECT_EQ(show(call("trilu", {counting({2, 2}), ints({}, {INT64_MIN})})), "f32[2,2] 0 1 2 3");
  EXPECT_FALSE(call("trilu", {counting({2})}).ok());
}

TEST(OneHot, LeavesIndicesOutOfRangeCold) {
  EXPECT_EQ(show(call("one_hot", {ints({3}, {-1, 2, -4}), ints({}, {3}), floats({2}, {0, 1})})),
            "f32[3,3] 0 0 1 0 0 1 0 0 0");
  EXPECT_FALSE(call("one_hot", {ints({1}, {0}), ints({}, {-1}), floats({2}, {0, 1})}).ok());
}

TEST(ReverseSequence, RefusesLengthsBeyondTheAxis) {
  EXPECT_EQ(show(call("reverse_sequence", {counting({3, 1}), ints({1}, {2})})), "f32[3,1] 1 0 2");
  EXPECT_FALSE(call("reverse_sequence", {counting({3, 1}), ints({1}, {4})}).ok());
}

}  // namespace
}  // namespace isomer::test
