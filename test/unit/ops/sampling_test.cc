// Edge cases of the operators that read between points.
#include <gtest/gtest.h>

#include <cmath>

#include "test/unit/ops/call.h"

namespace isomer::test {
namespace {

std::string resize(const Tensor& x, const std::vector<double>& scales, ir::Attrs attrs) {
  return show(call("resize", {x, Arg(), floats({static_cast<int64_t>(scales.size())}, scales)}, std::move(attrs)));
}

TEST(Resize, RepeatsPointsByWholeScales) {
  EXPECT_EQ(resize(counting({3}), {2}, {}), "f32[6] 0 0 1 1 2 2");
  EXPECT_EQ(resize(counting({4}), {0.5}, {{"coordinate_transformation_mode", std::string("asymmetric")}}),
            "f32[2] 0 2");
  EXPECT_EQ(resize(counting({3}, DType::U8), {2}, {{"nearest_mode", std::string("ceil")}}), "u8[6] 0 1 1 2 2 2");
}

TEST(Resize, FollowsSymbolicExtents) {
  ir::GraphBuilder b(ops::table(), "g");
  const ir::Value x = *b.input("x", {DType::F32, {Dim::symbol("N"), Dim::symbol("H")}, nullptr});
  const auto y = b.add1("resize", {x, ir::Value::none(), b.constant(floats({2}, {1, 2.5}))});
  ASSERT_TRUE(y.ok()) << y.error().to_string();
  EXPECT_EQ(b.type(*y).to_string(), "f32[N,floordiv(H*5,2)]");
}

TEST(Resize, WidensItsFilterWhenItAntialiases) {
  EXPECT_EQ(resize(floats({4}, {0, 0, 4, 4}), {0.5}, {{"mode", std::string("linear")}, {"antialias", int64_t{1}}}),
            "f32[2] 0.5 3.5");
}

TEST(Resize, KeepsTheAspectRatio) {
  const auto out = call("resize", {counting({2, 4}), Arg(), Arg(), ints({2}, {4, 4})},
                        {{"keep_aspect_ratio_policy", std::string("not_larger")}});
  EXPECT_EQ(show(out), "f32[2,4] 0 1 2 3 4 5 6 7");
}

TEST(Resize, ChecksItsOperands) {
  EXPECT_FALSE(call("resize", {counting({2})}).ok());
  EXPECT_FALSE(call("resize", {counting({2}), Arg(), floats({1}, {2}), ints({1}, {4})}).ok());
  EXPECT_FALSE(call("resize", {counting({2}), Arg(), floats({2}, {2, 2})}).ok());
  EXPECT_FALSE(call("resize", {counting({2}), Arg(), Arg(), ints({1}, {-1})}).ok());
  EXPECT_FALSE(call("resize", {counting({0}), Arg(), Arg(), ints({1}, {3})}).ok());
  EXPECT_EQ(show(call("resize", {counting({0}), Arg(), floats({1}, {2})})), "f32[0]");
  EXPECT_FALSE(resize(counting({2}), {2}, {{"mode", std::string("spline")}}).starts_with("f32"));
}

TEST(GridSample, ReadsCornersAndOutside) {
  const Tensor x = counting({1, 1, 2, 2}), grid = floats({1, 1, 3, 2}, {-1, -1, 1, 1, 9, 9});
  const auto sample = [&](const char* padding) {
    return show(
        call("grid_sample", {x, grid}, {{"align_corners", int64_t{1}}, {"padding_mode", std::string(padding)}}));
  };
  EXPECT_EQ(sample("zeros"), "f32[1,1,1,3] 0 3 0");
  EXPECT_EQ(sample("border"), "f32[1,1,1,3] 0 3 3");
  EXPECT_EQ(sample("reflection"), "f32[1,1,1,3] 0 3 3");
  EXPECT_TRUE(call("grid_sample", {x, floats({1, 1, 1, 2}, {NAN, 1e30})}).ok());
  EXPECT_FALSE(call("grid_sample", {x, floats({1, 1, 1, 3}, {0, 0, 0})}).ok());
}

TEST(GridSample, TheLastExtentOfTheGridMayBeOpen) {
  ir::GraphBuilder b(ops::table(), "g");
  const auto open = [](std::vector<Dim> dims) { return Type{DType::F32, Shape(std::move(dims)), nullptr}; };
  const ir::Value x = *b.input("x", open({Dim(1), Dim(1), Dim(3), Dim(4)}));
  const ir::Value grid = *b.input("grid", open({Dim(1), Dim(2), Dim(2), Dim::symbol("n")}));
  const auto y = b.add1("grid_sample", {x, grid});
  ASSERT_TRUE(y.ok()) << y.error().to_string();
  EXPECT_EQ(b.type(*y).to_string(), "f32[1,1,2,2]");
}

TEST(GridSample, BringsTheTapsOfACubicToTheBorderOneByOne) {
  // Half a step before the first of 0 1 2 3: the taps are 0 0 0 1, the last of weight -3/32.
  const Tensor x = counting({1, 1, 1, 4}), grid = floats({1, 1, 1, 2}, {-4.0 / 3, 0});
  const auto y =
      call("grid_sample", {x, grid},
           {{"align_corners", int64_t{1}}, {"mode", std::string("cubic")}, {"padding_mode", std::string("border")}});
  ASSERT_TRUE(y.ok()) << y.error().to_string();
  EXPECT_NEAR(y->at(0).real(0), -0.09375, 1e-6);
}

TEST(AffineGrid, MapsTheIdentityToPixelCentres) {
  EXPECT_EQ(show(call("affine_grid", {floats({1, 2, 3}, {1, 0, 0, 0, 1, 0}), ints({4}, {1, 1, 1, 2})})),
            "f32[1,1,2,2] -0.5 0 0.5 0");
}

TEST(RoiAlign, RefusesRegionsTooLargeToSample) {
  const Tensor x = counting({1, 1, 2, 2}), batch = ints({1}, {0});
  EXPECT_FALSE(call("roi_align", {x, floats({1, 4}, {0, 0, 1e20, 1}), batch}).ok());
  EXPECT_FALSE(call("roi_align", {x, floats({1, 4}, {0, 0, 1, 1}), ints({1}, {1})}).ok());
  EXPECT_EQ(show(call("roi_align", {x, floats({1, 4}, {0, 0, 2, 2}), batch})), "f32[1,1,1,1] 1.5");
}

TEST(Col2Im, AddsOverlappingBlocks) {
  const Tensor ones = floats({1, 4, 4}, std::vector<double>(16, 1));
  EXPECT_EQ(show(call("col2im", {ones, ints({2}, {3, 3}), ints({2}, {2, 2})})), "f32[1,1,3,3] 1 2 1 2 4 2 1 2 1");
  EXPECT_FALSE(call("col2im", {ones, ints({2}, {4, 3}), ints({2}, {2, 2})}).ok());
  EXPECT_FALSE(call("col2im", {ones, ints({2}, {3, 3}), ints({2}, {0, 2})}).ok());
}

TEST(CenterCropPad, DoesBothAtOnce) {
  EXPECT_EQ(show(call("center_crop_pad", {counting({3, 2}), ints({2}, {2, 5})})), "f32[2,5] 0 0 1 0 0 0 2 3 0 0");
}

TEST(NonMaxSuppression, BreaksTiesByPosition) {
  const Tensor boxes = floats({1, 3, 4}, {0, 0, 1, 1, 0, 0, 1, 1, 5, 5, 6, 6}), scores = floats({1, 1, 3}, {1, 1, 1});
  EXPECT_EQ(show(call("non_max_suppression", {boxes, scores, ints({1}, {5}), floats({1}, {0.5})})),
            "i64[2,3] 0 0 0 0 0 2");
  EXPECT_EQ(show(call("non_max_suppression", {boxes, scores})), "i64[0,3]");
  EXPECT_FALSE(call("non_max_suppression", {boxes, floats({1, 1, 2}, {1, 1})}).ok());
}

// Even and odd lengths: the signal comes back from half of its spectrum.
TEST(Dft, ComesBackFromHalfASpectrum) {
  for (const int64_t n : {6, 7}) {
    const Tensor signal = counting({1, n, 1});
    const auto half = call("dft", {signal}, {{"onesided", int64_t{1}}});
    ASSERT_TRUE(half.ok()) << half.error().to_string();
    const auto back = call("dft", {half->at(0), ints({}, {n})}, {{"onesided", int64_t{1}}, {"inverse", int64_t{1}}});
    ASSERT_TRUE(back.ok()) << back.error().to_string();
    EXPECT_EQ(back->at(0).dims(), (std::vector<int64_t>{1, n, 1}));
    for (int64_t i = 0; i < n; ++i) EXPECT_NEAR(back->at(0).real(i), static_cast<double>(i), 1e-5);
  }
  const Tensor half = floats({1, 4, 2}, {1, 0, 0, 0, 0, 0, 0, 0});
  EXPECT_EQ(show(call("dft", {half}, {{"onesided", int64_t{1}}, {"inverse", int64_t{1}}})).substr(0, 10), "f32[1,6,1]");
  EXPECT_FALSE(call("dft", {floats({1, 1, 2}, {1, 0})}, {{"onesided", int64_t{1}}, {"inverse", int64_t{1}}}).ok());
}

TEST(Random, DrawsWhatNumpyDrawsForASeed) {
  const auto drawn = [](const char* op) {
    const auto t = call(op, {}, {{"shape", std::vector<int64_t>{3}}, {"dtype", DType::F64}, {"seed", 0.0}});
    return t.ok() ? t->at(0).to_reals() : std::vector<double>(3);
  };
  const std::vector<double> uniform = drawn("random_uniform"), normal = drawn("random_normal");
  const double known[2][3] = {{0.5488135039273248, 0.7151893663724195, 0.6027633760716439},
                              {1.764052345967664, 0.4001572083672233, 0.9787379841057392}};
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_NEAR(uniform[i], known[0][i], 1e-15);
    EXPECT_NEAR(normal[i], known[1][i], 1e-15);
  }
}

TEST(Random, DrawsTheSameNumbersForOneSeed) {
  const ir::Attrs attrs{{"shape", std::vector<int64_t>{4}}, {"seed", 3.0}};
  EXPECT_EQ(show(call("random_uniform", {}, attrs)), show(call("random_uniform", {}, attrs)));
  EXPECT_NE(show(call("random_uniform", {}, attrs)),
            show(call("random_uniform", {}, {{"shape", std::vector<int64_t>{4}}, {"seed", 4.0}})));
  EXPECT_EQ(show(call("bernoulli", {floats({2}, {0, 1})}, {{"dtype", DType::Bool}})), "bool[2] 0 1");
}

// Four standard deviations of 20,000 draws on either side.
TEST(Random, BernoulliDrawsOnesAsOftenAsItsInputSays) {
  constexpr int64_t kDraws = 20000;
  for (const double p : {0.1, 0.5, 0.8}) {
    const auto drawn = call("bernoulli", {floats({kDraws}, std::vector<double>(kDraws, p))}, {{"seed", 5.0}});
    ASSERT_TRUE(drawn.ok()) << drawn.error().to_string();
    double ones = 0;
    for (const double v : drawn->at(0).to_reals()) ones += v;
    EXPECT_NEAR(ones / kDraws, p, 4 * std::sqrt(p * (1 - p) / kDraws));
  }
}

}  // namespace
}  // namespace isomer::test
