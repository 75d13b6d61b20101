#include "test/loop_programs.h"

namespace isomer::loop {
namespace {

void expect_right(const std::string& text) {
  const te::Program p = parsed(text);
  const auto nest = nest_of(p);
  ASSERT_TRUE(nest.ok()) << nest.error().to_string();
  EXPECT_EQ(check_nest(p, *nest), "") << text;
}

TEST(LoopLower, ElementWiseAndProducts) {
  expect_right("input a : f32[3,4]\ny[i<3,j<4] : f32 = a[i,j]*a[i,j] + 1\noutput y\n");
  expect_right("input a : f32[3,5]\ninput b : f32[5,4]\ny[i<3,j<4] : f32 = sum(k<5) a[i,k]*b[k,j]\noutput y\n");
  expect_right("input a : f32[]\ny[] : f32 = a[]*2\noutput y\n");
  expect_right("input a : f32[7]\ny[] : f32 = sum(k<7) a[k]\noutput y\n");
  expect_right("input a : f32[0,4]\ny[j<4] : f32 = sum(k<0) a[k,j]\noutput y\n");
}

TEST(LoopLower, StagesInOrder) {
  expect_right(
      "input x : f32[4,6]\nm[i<4] : f32 = max(k<6) x[i,k]\ne[i<4,j<6] : f32 = exp(x[i,j] - m[i])\n"
      "s[i<4] : f32 = sum(k<6) e[i,k]\ny[i<4,j<6] : f32 = e[i,j]/s[i]\noutput y\n");
}

TEST(LoopLower, ReductionsInsideOfExpressions) {
  expect_right("input x : f32[4,6]\ny[i<4,j<6] : f32 = x[i,j] - (sum(k<6) x[i,k])/6\noutput y\n");
  expect_right("input x : f32[4,6]\ny[i<4] : f32 = sum(k<6) (x[i,k]*(max(l<6) x[i,l]))\noutput y\n");
  expect_right("input x : f32[4,6]\ny[i<4] : f32 = select(1 <= i, sum(k<6) x[i - 1,k], 0)\noutput y\n");
  expect_right("input x : f32[6]\ny[i<6] : f32 = sum(k<6 where k <= i) x[k]\noutput y\n");
}

TEST(LoopLower, PositionsOfExtrema) {
  for (const char* op : {"argmax", "argmin", "argmax_last", "argmin_last"}) {
    expect_right(std::string("input x : i32[4,30]\ny[i<4] : i64 = ") + op + "(k<30) x[i,k]\noutput y\n");
    expect_right(std::string("input x : f32[4,9]\ny[i<4] : i64 = ") + op + "(k<9) abs(x[i,k])\noutput y\n");
    expect_right(std::string("input x : f32[4,9]\ny[i<4] : i64 = ") + op + "(k<9 where 3 <= k + i) x[i,k]\noutput y\n");
  }
}

TEST(LoopLower, SixteenBitSumsAreWide) {
  expect_right("input x : f16[3,50]\ny[i<3] : f16 = sum(k<50) x[i,k]*x[i,k]\noutput y\n");
}

TEST(LoopLower, OutputsThatAreInputsOrTwice) {
  expect_right("input a : f32[3]\ny[i<3] : f32 = a[i] + 1\noutput a, y, y\n");
}

TEST(LoopLower, PaddingStaysGuarded) {
  expect_right(
      "input x : f32[5,6]\ninput w : f32[3,3]\n"
      "y[i<5,j<6] : f32 = sum(a<3,b<3) select(1 <= i + a && i + a < 6 && 1 <= j + b && j + b < 7, "
      "x[i + a - 1,j + b - 1], 0)*w[a,b]\noutput y\n");
  expect_right(
      "input x : f32[5,6]\ninput w : f32[3,3]\n"
      "y[i<5,j<6] : f32 = sum(a<3,b<3 where 1 <= i + a && i + a < 6 && 1 <= j + b && j + b < 7) "
      "x[i + a - 1,j + b - 1]*w[a,b]\noutput y\n");
}

TEST(LoopLower, GiantIntermediatesAreComputedWhereTheyAreRead) {
  const auto nest =
      nest_of(parsed("input x : f32[30000,2]\ninput w : f32[2,30000]\n"
                     "y[i<30000] : f32 = sum(k<30000) abs(sum(l<2) x[i,l]*w[l,k])\noutput y\n"));
  ASSERT_TRUE(nest.ok());
  const auto f = finish(*nest, "k");
  ASSERT_TRUE(f.ok());
  EXPECT_TRUE(verify(*f).ok()) << print(*f);
  EXPECT_NE(print(*f).find("local y_sum: f32[1,1]"), std::string::npos) << print(*f);
}

TEST(LoopLower, SymbolicExtentsAreDeclined) {
  const auto nest = nest_of(parsed("input a : f32[N]\ny[i<N] : f32 = a[i]\noutput y\n"));
  ASSERT_FALSE(nest.ok());
  EXPECT_EQ(nest.error().code, "E-loop-nest");
}

}  // namespace
}  // namespace isomer::loop
