// Edge cases of the operators that move elements.
#include <gtest/gtest.h>

#include "test/unit/ops/call.h"

namespace isomer::test {
namespace {

using Ints = std::vector<int64_t>;

TEST(Reshape, RefusesShapesThatDoNotFit) {
  const Tensor x = counting({2, 3});
  EXPECT_EQ(show(call("reshape", {x, ints({2}, {-1, -1})})), "reshape: the shape has -1 at 0 and at 1, one is allowed");
  EXPECT_EQ(show(call("reshape", {x, ints({2}, {4, -1})})),
            "reshape: 6 elements of [2,3] cannot fill a shape whose other dims hold 4");
  EXPECT_EQ(show(call("reshape", {x, ints({2}, {4, 2})})), "reshape: 6 elements of [2,3] do not fit shape [4,2]");
  EXPECT_EQ(show(call("reshape", {x, ints({1}, {-2})})), "reshape: the shape holds -2, expected -1 or more");
  EXPECT_EQ(show(call("reshape", {x, ints({3}, {2, 3, 0})})),
            "reshape: dim 2 of the shape is copied from an input of rank 2");
  EXPECT_EQ(show(call("reshape", {counting({0, 3}), ints({2}, {0, -1})}, {{"allowzero", int64_t{1}}})),
            "reshape: with allowzero a shape cannot hold both 0 and -1");
}

TEST(Reshape, HandlesEmptyTensorsAndScalars) {
  EXPECT_EQ(show(call("reshape", {counting({0, 3}), ints({2}, {0, -1})})), "f32[0,3]");
  EXPECT_EQ(show(call("reshape", {counting({0, 3}), ints({2}, {3, 0})}, {{"allowzero", int64_t{1}}})), "f32[3,0]");
  EXPECT_EQ(show(call("reshape", {counting({1, 1}), ints({0}, {})})), "f32[] 0");
  EXPECT_EQ(show(call("flatten", {counting({})}, {{"axis", int64_t{0}}})), "f32[1,1] 0");
}

TEST(Reshape, RegroupsAxes) {
  EXPECT_EQ(show(call("reshape", {counting({2, 3, 2}), ints({2}, {4, 3})})), "f32[4,3] 0 1 2 3 4 5 6 7 8 9 10 11");
}

TEST(Squeeze, ChecksItsAxes) {
  EXPECT_EQ(show(call("squeeze", {counting({1, 3}), ints({1}, {1})})),
            "squeeze: axis 1 has extent 3, only axes of extent 1 can go");
  EXPECT_EQ(show(call("squeeze", {counting({1, 3}), ints({1}, {2})})), "squeeze: axis 2 is out of range for rank 2");
  EXPECT_EQ(show(call("unsqueeze", {counting({2}), ints({2}, {0, -3})})), "unsqueeze: axis 0 is named twice");
  EXPECT_EQ(show(call("unsqueeze", {counting({2}), ints({2}, {0, -1})})), "f32[1,2,1] 0 1");
}

TEST(Transpose, RefusesWhatIsNoPermutation) {
  EXPECT_EQ(show(call("transpose", {counting({2, 3})}, {{"perm", Ints{0, 0}}})), "transpose: axis 0 is named twice");
  EXPECT_EQ(show(call("transpose", {counting({2, 3})}, {{"perm", Ints{0}}})),
            "transpose: attribute 'perm' has 1 entries for an input of rank 2");
  EXPECT_EQ(show(call("transpose", {counting({2, 3})})), "f32[3,2] 0 3 1 4 2 5");
}

TEST(Concat, ChecksShapesAndTakesEmptyParts) {
  EXPECT_EQ(show(call("concat", {counting({1, 2}), counting({1, 0}), counting({1, 1})}, {{"axis", int64_t{-1}}})),
            "f32[1,3] 0 1 0");
  EXPECT_EQ(show(call("concat", {counting({1, 2}), counting({2, 2})}, {{"axis", int64_t{1}}})),
            "concat: extents beside the concatenated axis must be equal, found 1 and 2");
  EXPECT_EQ(show(call("concat", {counting({})}, {{"axis", int64_t{0}}})), "concat: axis 0 is out of range for rank 0");
}

TEST(Split, MakesUnevenLastParts) {
  const auto out = call("split", {counting({7})}, {{"num_outputs", int64_t{3}}}, 3);
  EXPECT_EQ(show(out, 0), "f32[3] 0 1 2");
  EXPECT_EQ(show(out, 2), "f32[1] 6");
  EXPECT_EQ(show(call("split", {counting({7})}, {}, 2)),
            "split: an axis of extent 7 does not split into 2 equal parts");
  EXPECT_EQ(show(call("split", {counting({3}), ints({2}, {4, -1})}, {}, 2)),
            "split: input 'split' holds the size -1, expected 0 or more");
  EXPECT_EQ(show(call("split", {counting({3}), ints({2}, {2, 2})}, {}, 2)),
            "split: the parts hold 4 in all, the axis has extent 3");
}

TEST(Slice, TakesExtremeBounds) {
  const Tensor x = counting({5});
  const auto slice = [&](int64_t from, int64_t to, int64_t step) {
    return show(call("slice", {x, ints({1}, {from}), ints({1}, {to}), ints({1}, {0}), ints({1}, {step})}));
  };
  EXPECT_EQ(slice(INT64_MAX, INT64_MIN, -1), "f32[5] 4 3 2 1 0");
  EXPECT_EQ(slice(INT64_MIN, INT64_MAX, 1), "f32[5] 0 1 2 3 4");
  EXPECT_EQ(slice(INT64_MIN, INT64_MAX, INT64_MAX), "f32[1] 0");
  EXPECT_EQ(slice(-1, INT64_MIN, INT64_MIN), "f32[1] 4");
  EXPECT_EQ(slice(3, 1, 1), "f32[0]");
  EXPECT_EQ(slice(-2, -4, -1), "f32[2] 3 2");
  EXPECT_EQ(slice(0, 5, 0), "slice: a step is 0, expected any other number");
}

TEST(Pad, CropsAndCopies) {
  const Tensor x = counting({4});
  const auto pad = [&](int64_t before, int64_t after, const char* mode) {
    return show(call("pad", {x, ints({2}, {before, after})}, {{"mode", std::string(mode)}}));
  };
  EXPECT_EQ(pad(-1, 1, "constant"), "f32[4] 1 2 3 0");
  EXPECT_EQ(pad(-2, -2, "constant"), "f32[0]");
  EXPECT_EQ(pad(5, 1, "reflect"), "f32[10] 1 2 3 2 1 0 1 2 3 2");
  EXPECT_EQ(pad(-1, 2, "edge"), "f32[5] 1 2 3 3 3");
  EXPECT_EQ(pad(2, 5, "wrap"), "f32[11] 2 3 0 1 2 3 0 1 2 3 0");
  EXPECT_EQ(pad(-3, -2, "constant"), "pad: pads -3 and -2 take more than the 4 elements of axis 0");
  EXPECT_EQ(pad(0, 0, "middle"), "pad: mode 'middle' is none of constant, reflect, edge, wrap");
}

TEST(Bombs, AreRefusedBeforeAnythingIsAllocated) {
  const int64_t huge = int64_t{1} << 40;
  EXPECT_FALSE(call("constant_of_shape", {ints({2}, {huge, huge})}).ok());
  EXPECT_FALSE(call("constant_of_shape", {ints({1}, {INT64_MAX})}).ok());
  EXPECT_FALSE(call("constant_of_shape", {ints({1}, {-1})}).ok());
  EXPECT_FALSE(call("expand", {counting({1}), ints({1}, {huge})}).ok());
  EXPECT_FALSE(call("tile", {counting({2, 2}), ints({2}, {huge, INT64_MAX})}).ok());
  EXPECT_FALSE(call("pad", {counting({2}), ints({2}, {INT64_MAX, INT64_MAX})}).ok());
  EXPECT_FALSE(call("range", {ints({}, {INT64_MIN}), ints({}, {INT64_MAX}), ints({}, {1})}).ok());
  EXPECT_FALSE(call("range", {ints({}, {0}), ints({}, {5}), ints({}, {0})}).ok());
  EXPECT_FALSE(call("range", {floats({}, {0}), floats({}, {1}), floats({}, {NAN})}).ok());
  EXPECT_FALSE(call("resize", {counting({1, 2}), Arg(), floats({2}, {1e30, 1e30})}).ok());
  EXPECT_FALSE(call("resize", {counting({1, 2}), Arg(), floats({2}, {NAN, -1})}).ok());
  EXPECT_FALSE(call("random_normal", {}, {{"shape", Ints{huge, huge}}}).ok());
}

}  // namespace
}  // namespace isomer::test
