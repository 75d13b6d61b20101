#include "te/simplify.h"

#include <gtest/gtest.h>

#include "te/parse.h"
#include "te/print.h"
#include "te/rules.h"

namespace isomer::te {
namespace {

// The simplified last stage of a program over i < 8, j < 4, n < N, m < M and u < 1, as text.
std::string simplified(const std::string& type, const std::string& body) {
  const auto p = parse_program(
      "input d : i32[8]\ninput f : f32[8]\ninput b : bool[8]\ninput e : i64[8]\n"
      "y[i<8,j<4,n<N,m<M,u<1] : " +
      type + " = " + body + "\noutput y\n");
  if (!p.ok()) return p.error().to_string();
  const Program s = simplify(*p);
  const std::string text = print(s);
  const size_t from = text.find(" = ") + 3;
  return text.substr(from, text.find('\n', from) - from);
}
std::string index(const std::string& body) { return simplified("i64", body); }
std::string cond(const std::string& body) { return simplified("bool", body); }
std::string real(const std::string& body) { return simplified("f32", body); }
std::string data(const std::string& body) { return simplified("i32", body); }

TEST(TeSimplify, AffineNormalForm) {
  EXPECT_EQ(index("i + 0"), "i");
  EXPECT_EQ(index("j + i"), "i + j");
  EXPECT_EQ(index("2*(i + 3) - i - i + j"), "j + 6");
  EXPECT_EQ(index("i - j - i"), "-j");
  EXPECT_EQ(index("(i*size(N))*2 + size(N)*i"), "i*size(N)*3");
  EXPECT_EQ(index("i*0 + u"), "0");
  EXPECT_EQ(data("d[i] + d[i] - 3*d[i] + 5"), "-d[i] + 5");
}

TEST(TeSimplify, DivisionByBounds) {
  EXPECT_EQ(index("floordiv(i*4 + j, 4)"), "i");
  EXPECT_EQ(index("mod(i*4 + j, 4)"), "j");
  EXPECT_EQ(index("floordiv(i*8 + j, 4)"), "i*2");
  EXPECT_EQ(index("mod(i*4 + j, 8)"), "j + mod(i,2)*4");
  EXPECT_EQ(index("floordiv(floordiv(i,2),2)"), "floordiv(i,4)");
  EXPECT_EQ(index("floordiv(i,4)*4 + mod(i,4)"), "i");
  EXPECT_EQ(index("floordiv(i,4)*12 + mod(i,4)*3 + j"), "i*3 + j");
  EXPECT_EQ(index("floordiv(i*size(N) + n, size(N))"), "i");
  EXPECT_EQ(index("mod(i*size(N) + n, size(N))"), "n");
  EXPECT_EQ(index("floordiv((i*size(N) + n)*size(M) + m, size(M))"), "n + i*size(N)");
  EXPECT_EQ(index("i / 4"), "floordiv(i,4)");
  EXPECT_EQ(index("floordiv(i + 9,4)"), "floordiv(i + 1,4) + 2");
}

TEST(TeSimplify, ComparisonsAreDecidedByBounds) {
  EXPECT_EQ(cond("0 <= i && i < 8"), "true");
  EXPECT_EQ(cond("n < size(N)"), "true");
  EXPECT_EQ(cond("n*size(M) + m < size(N)*size(M)"), "true");
  EXPECT_EQ(cond("i + 3 < 5"), "i < 2");
  EXPECT_EQ(cond("i*2 < 5"), "i < 3");
  EXPECT_EQ(cond("i == 9"), "false");
  EXPECT_EQ(cond("!(i < j)"), "j <= i");
  EXPECT_EQ(cond("b[i] && true && b[i]"), "b[i]");
  EXPECT_EQ(index("min(i, 20)"), "i");
  EXPECT_EQ(index("select(i < 100, j, i)"), "j");
}

TEST(TeSimplify, DataIntegersWrap) {
  EXPECT_EQ(data("(d[i]*4)/4"), "d[i]*4/4");  // not d[i]
  EXPECT_EQ(cond("d[i] + 1 < d[i]"), "d[i] + 1 < d[i]");
  EXPECT_EQ(cond("e[i] + 1 < 5"), "e[i] + 1 < 5");
  EXPECT_EQ(cond("i*4611686018427387904 + i*4611686018427387904 < 5"), cond("i*-9223372036854775808 < 5"));
}

TEST(TeSimplify, RealsKeepEveryBit) {
  EXPECT_EQ(real("f[i] + 0"), "f[i] + 0");
  EXPECT_EQ(real("f[i]*0"), "f[i]*0");
  EXPECT_EQ(real("f[i] - f[i]"), "f[i] - f[i]");
  EXPECT_EQ(real("1*f[i] - 0"), "f[i]");
  EXPECT_EQ(real("max(max(f[i],0),0)"), "max(f[i],0)");
  EXPECT_EQ(real("-(-f[i]) + -f[j]"), "f[i] - f[j]");
}

TEST(TeSimplify, TrivialReductions) {
  EXPECT_EQ(real("sum(k<0) f[i]"), "0:f32");
  EXPECT_EQ(real("max(k<1) f[i + k]"), "f[i]");
  EXPECT_EQ(real("sum(k<1) f[i + k]"), "f[i] + 0");
  EXPECT_EQ(real("sum(k<4,l<1 where k < 9) f[k + l]"), "sum(k<4) f[k]");
  EXPECT_EQ(index("sum(k<4,l<5) 2"), "40");
  EXPECT_EQ(real("product(k<1 where b[i]) f[k]"), "select(b[i],f[0],1)");
  EXPECT_EQ(index("argmax(k<1) f[k]"), "0");
  EXPECT_EQ(real("sum(k<4 where false) f[k]"), "0:f32");
}

TEST(TeSimplify, SharedNodesAreSimplifiedOnce) {
  const Axis i{0, "i", Dim(8)};
  Expr e = i;
  for (int n = 0; n < 200; ++n) e = floor_mod(e + e + Expr(1), Expr(1000));
  const Expr s = simplify(e, std::vector<Axis>{i});
  EXPECT_TRUE(equal(simplify(s, std::vector<Axis>{i}), s));
}

TEST(TeSimplify, DepthCostsNoStack) {
  const Axis i{0, "i", Dim(8)};
  Expr sum = i, product = i, choice = i, mixed = Expr::read(0, DType::F32, {i});
  for (int n = 0; n < 10000; ++n) {
    sum = sum + Expr::read(0, DType::I64, {Expr(n)});
    product = product * Expr::read(0, DType::I64, {Expr(n)});
    choice = select(Expr::read(1, DType::Bool, {Expr(n)}), choice, Expr(n));
    mixed = exp(mixed) + Expr::real(DType::F32, 1);
  }
  for (const Expr& e : {sum, product, choice, mixed}) (void)simplify(e, std::vector<Axis>{i});
}

TEST(TeSimplify, AMovedSumIsTheSimplifiedOne) {
  const Axis i{0, "i", Dim(8)}, j{1, "j", Dim(4)};
  const Expr sums[] = {Expr(5),          i, -Expr(i), Expr(i) * Expr(64) + Expr(j) + Expr(7), Expr(i) - Expr(3),
                       Expr(j) - Expr(i)};
  for (const Expr& e : sums)
    for (const int64_t by : {-7, -3, 0, 3, 11}) {
      const Expr whole = simplify(e + Expr(by));
      EXPECT_TRUE(equal(moved(simplify(e), by), whole)) << print(whole) << " by " << by;
    }
}

TEST(TeSimplify, TheTableReads) {
  EXPECT_GT(rule_table().size(), 100u);
  EXPECT_GT(read_rules().size(), rule_table().size());
}

}  // namespace
}  // namespace isomer::te
