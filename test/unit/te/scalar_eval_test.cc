#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "te/eval.h"
#include "te/parse.h"

namespace isomer::te {
namespace {

constexpr int64_t kLow = std::numeric_limits<int64_t>::min();

TEST(TeScalar, DivisionRoundsAsItsNameSays) {
  const auto div = [](BinaryOp op, int64_t a, int64_t b) { return *int_binary(op, DType::I64, a, b); };
  EXPECT_EQ(div(BinaryOp::Div, -7, 2), -3);
  EXPECT_EQ(div(BinaryOp::Rem, -7, 2), -1);
  EXPECT_EQ(div(BinaryOp::FloorDiv, -7, 2), -4);
  EXPECT_EQ(div(BinaryOp::FloorMod, -7, 2), 1);
  EXPECT_EQ(div(BinaryOp::FloorMod, 7, -2), -1);
  EXPECT_EQ(div(BinaryOp::Div, kLow, -1), kLow);
  EXPECT_EQ(div(BinaryOp::Rem, kLow, -1), 0);
  for (const BinaryOp op : {BinaryOp::Div, BinaryOp::Rem, BinaryOp::FloorDiv, BinaryOp::FloorMod})
    for (const DType t : {DType::I64, DType::U64, DType::I8}) EXPECT_FALSE(int_binary(op, t, 5, 0).has_value());
}

TEST(TeScalar, IntegersWrapToTheirType) {
  EXPECT_EQ(*int_binary(BinaryOp::Add, DType::I8, 127, 1), -128);
  EXPECT_EQ(*int_binary(BinaryOp::Mul, DType::U8, 200, 2), 144);
  EXPECT_EQ(int_unary(UnaryOp::Neg, DType::I64, kLow), kLow);
  EXPECT_EQ(int_unary(UnaryOp::Neg, DType::U8, 1), 255);
  EXPECT_EQ(*int_binary(BinaryOp::Div, DType::I8, -128, -1), -128);
  EXPECT_EQ(*int_binary(BinaryOp::Lt, DType::U64, -1, 1), 0);  // -1 stores the largest u64
  EXPECT_EQ(*int_binary(BinaryOp::Max, DType::U64, -1, 1), -1);
  EXPECT_EQ(*int_binary(BinaryOp::Shl, DType::I32, 1, 32), 0);
  EXPECT_EQ(*int_binary(BinaryOp::Shr, DType::I32, -8, 1), -4);
  EXPECT_EQ(*int_binary(BinaryOp::Pow, DType::I64, 2, -1), 0);
  EXPECT_EQ(*int_binary(BinaryOp::Pow, DType::I64, -1, -3), -1);
}

TEST(TeScalar, NanPropagatesAndComparesFalse) {
  const double nan = std::nan("");
  EXPECT_TRUE(std::isnan(real_binary(BinaryOp::Max, nan, 1)));
  EXPECT_TRUE(std::isnan(real_binary(BinaryOp::Max, 1, nan)));
  EXPECT_TRUE(std::isnan(real_binary(BinaryOp::Min, nan, 1)));
  EXPECT_TRUE(std::isnan(real_binary(BinaryOp::Min, 1, nan)));
  EXPECT_FALSE(real_compare(BinaryOp::Eq, nan, nan));
  EXPECT_FALSE(real_compare(BinaryOp::Le, nan, nan));
  EXPECT_TRUE(real_compare(BinaryOp::Ne, nan, nan));
  EXPECT_EQ(real_unary(UnaryOp::Round, 2.5), 2);
  EXPECT_EQ(real_unary(UnaryOp::Round, 3.5), 4);
  EXPECT_EQ(real_binary(BinaryOp::FloorMod, -7, 2), 1);
  EXPECT_TRUE(arg_better(Combiner::ArgMax, nan, 5));
  EXPECT_FALSE(arg_better(Combiner::ArgMax, 5, nan));
  EXPECT_FALSE(arg_better(Combiner::ArgMax, 5, 5));
  EXPECT_TRUE(arg_better(Combiner::ArgMaxLast, 5, 5));
}

using Doubles = Array<DoubleDomain>;

Expected<std::vector<double>> run(const std::string& type, const std::string& body) {
  const auto p =
      parse_program("input a : f32[2,3]\ninput n : i64[3]\ny[i<2] : " + type + " = " + body + "\noutput y\n");
  if (!p.ok()) return p.error();
  const DoubleDomain domain;
  auto out = Evaluator<DoubleDomain>(domain).run(
      *p, {Doubles{DType::F32, {2, 3}, {1, 2, 3, -4, 5, 5}, {}}, Doubles{DType::I64, {3}, {}, {0, 7, 2}}});
  if (!out.ok()) return out.error();
  std::vector<double> values = (*out)[0].reals;
  for (const int64_t v : (*out)[0].ints) values.push_back(static_cast<double>(v));
  return values;
}
std::vector<double> values(const std::string& type, const std::string& body) {
  auto v = run(type, body);
  EXPECT_TRUE(v.ok()) << (v.ok() ? "" : v.error().to_string());
  return v.ok() ? *v : std::vector<double>{};
}
using V = std::vector<double>;

TEST(TeEval, Reductions) {
  EXPECT_EQ(values("f32", "sum(k<3) a[i,k]"), (V{6, 6}));
  EXPECT_EQ(values("f32", "sum(k<3 where k != 1) a[i,k]"), (V{4, 1}));
  EXPECT_EQ(values("f32", "product(k<3) a[i,k]"), (V{6, -100}));
  EXPECT_EQ(values("f32", "max(k<3) a[i,k]"), (V{3, 5}));
  EXPECT_EQ(values("f32", "max(k<0) a[i,k]"), (V{-INFINITY, -INFINITY}));
  EXPECT_EQ(values("i64", "argmax(k<3) a[i,k]"), (V{2, 1}));
  EXPECT_EQ(values("i64", "argmax_last(k<3) a[i,k]"), (V{2, 2}));
  EXPECT_EQ(values("i64", "argmin(j<2,k<3) a[j,k]"), (V{3, 3}));
  EXPECT_EQ(values("i64", "sum(k<3,l<2) k*l"), (V{3, 3}));
}

TEST(TeEval, OnlyTheTakenBranchIsEvaluated) {
  EXPECT_EQ(values("f32", "select(i == 0,a[i,0],a[i - 1,1])"), (V{1, 2}));
  EXPECT_EQ(values("f32", "sum(k<9 where k < 3) a[i,k]"), (V{6, 6}));
  EXPECT_EQ(values("i64", "select(i < 5,i,floordiv(1,i - i))"), (V{0, 1}));
}

TEST(TeEval, WhatIsUndefinedIsAnError) {
  EXPECT_FALSE(run("f32", "a[i,3]").ok());
  EXPECT_FALSE(run("f32", "a[i,n[1]]").ok());
  EXPECT_FALSE(run("f32", "a[i - 1,0]").ok());
  EXPECT_FALSE(run("i64", "mod(i,n[0])").ok());
  EXPECT_FALSE(run("i64", "size(N)").ok());
}

TEST(TeEval, CastsTruncateAndSaturate) {
  EXPECT_EQ(values("i8", "i8(a[i,0]*1000)"), (V{127, -128}));
  EXPECT_EQ(values("i64", "i64(a[i,0]/2)"), (V{0, -2}));
  EXPECT_EQ(values("i64", "i64(nan:f32)"), (V{0, 0}));
  EXPECT_EQ(values("u8", "u8(n[i] - 1)"), (V{255, 6}));
  EXPECT_EQ(values("bool", "bool(n[i])"), (V{0, 1}));
}

}  // namespace
}  // namespace isomer::te
