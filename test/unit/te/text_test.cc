#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/random.h"
#include "te/parse.h"
#include "te/print.h"

namespace isomer::te {
namespace {

std::string again(const std::string& text) {
  const auto p = parse_program(text);
  return p.ok() ? print(*p) : p.error().to_string();
}
std::string fmt_place(const Diagnostic& d) {
  return " " + std::to_string(d.where.line) + ":" + std::to_string(d.where.column);
}
std::string expr_again(const std::string& text) {
  const auto e = parse_expr(text);
  return e.ok() ? print(*e) : e.error().to_string();
}

TEST(TeText, AProgramReadsAsItIsWritten) {
  const std::string text =
      "input a : f32[M,K]\n"
      "input b : f32[K,N]\n"
      "y[i<M,j<N] : f32 = sum(k<K) a[i,k]*b[k,j]\n"
      "z[r<M,s<N] : f32 = max(y[r,s],0) + 0.5\n"
      "output z, y\n";
  EXPECT_EQ(again(text), text);
}

TEST(TeText, ABuiltProgramSurvives) {
  Builder b;
  const Handle a = b.input("a b", DType::F32, {Dim::symbol("N"), Dim(3)});
  const Axis j = b.axis("i", Dim(3)), i = b.axis("i", Dim::symbol("N"));  // same name, ids out of order
  const Axis k = b.axis("where", Dim::symbol("where") * Dim(2));
  const Expr body =
      sum({k}, a(i, j) * Expr::real(DType::F32, -0.0), Expr(k) < Expr(i) && Expr(Dim::symbol("N")) < Expr(k));
  const Handle y = b.stage("y", DType::F32, {i, j}, body);
  const Axis u = b.axis("u", Dim(2)), v = b.axis("v", Dim(2));
  const Handle z = b.stage("y", DType::F32, {u, v}, y(u, v) - cast(DType::F32, Expr(u)));
  const Program p = b.finish({y, z});
  const auto back = parse_program(print(p));
  ASSERT_TRUE(back.ok()) << back.error().to_string() << "\n" << print(p);
  EXPECT_TRUE(equal(*back, p)) << print(p) << print(*back);
}

TEST(TeText, MinimalParentheses) {
  for (const std::string s : {"x@0 - (y@1 - 1)",
                              "x@0 - y@1 - 1",
                              "(x@0 + 1)*2",
                              "-(x@0 + 1)",
                              "-(3)",
                              "-3",
                              "x@0 - -3",
                              "x@0*(y@1*2)",
                              "x@0 < 1 && y@1 < 2 || x@0 == y@1",
                              "x@0 < 1 && (y@1 < 2 || x@0 == y@1)",
                              "!(x@0 < 1)",
                              "(x@0 < 1) == true",
                              "floordiv(x@0 + 1,4)*4 + mod(x@0,4)",
                              "select(x@0 < 1,x@0,y@1)",
                              "f32(x@0)*0.5",
                              "max(k<4) k*2 + 1",
                              "(max(k<4) k)*2",
                              "max((x@0 < 1),y@1 < 2)",
                              "max(k<4,l<N where k < l) sum(m<2) k*m",
                              "sum() 1",
                              "sum(where true && false) 1",
                              "u64(x@0) + 18446744073709551615",
                              "size(N*2+1) + x@0",
                              "exp($0:f32[x@0,1])",
                              "1.5:f32 + inf:f32",
                              "nan:f64*$0:f64[]",
                              "argmax_last(k<3) $1:i8[k]"}) {
    const bool bare_nan = s == "nan:f64*$0:f64[]";
    EXPECT_EQ(expr_again(s), bare_nan ? "nan*$0:f64[]" : s);
  }
}

TEST(TeText, EveryFloatLiteralSurvives) {
  const double odd_nan = std::nan("77");
  for (const double v : {0.0, -0.0, 1.0 / 3, 1e300, 5e-324, -2.5, std::numeric_limits<double>::infinity(),
                         -std::numeric_limits<double>::infinity(), std::nan(""), -std::nan(""), odd_nan, -odd_nan})
    for (const DType t : {DType::F64, DType::F32, DType::F16, DType::BF16}) {
      const Expr e = Expr::real(t, v);
      const auto alone = parse_expr(print(e));
      ASSERT_TRUE(alone.ok()) << print(e);
      EXPECT_TRUE(equal(*alone, e)) << print(e);
      const Expr beside = e * Expr::read(0, t, {});
      const auto back = parse_expr(print(beside));
      ASSERT_TRUE(back.ok()) << print(beside);
      EXPECT_TRUE(equal(*back, beside)) << print(beside);
    }
}

TEST(TeText, DiagnosticsSayWhere) {
  const auto at = [](const std::string& text) {
    const auto p = parse_program(text);
    if (p.ok()) return std::string("ok");
    return p.error().code + fmt_place(p.error());
  };
  EXPECT_EQ(at("y[i<3] : f32 = q[i]\noutput y\n"), "E-te-name 1:16");
  EXPECT_EQ(at("input a : f32[3]\ny[i<3] : f32 = a[j]\noutput y\n"), "E-te-name 2:18");
  EXPECT_EQ(at("input a : f32[3]\ny[i<3] : f32 = a[i] + i\noutput y\n"), "E-te-type 2:21");
  EXPECT_EQ(at("input a : f32[3]\ny[i<3] : f32 = a[i,i]\noutput y\n"), "E-te-type 2:16");
  EXPECT_EQ(at("input a : f32[3\n"), "E-te-syntax 2:1");
  EXPECT_EQ(at("y[i<3] : f33 = 1\noutput y\n"), "E-te-syntax 1:10");
  EXPECT_EQ(at("y[i<3] : i64 = i &\noutput y\n"), "E-te-syntax 1:18");
  EXPECT_EQ(at("y[i<3] : i64 = i\n"), "E-te-syntax 2:1");
  EXPECT_EQ(at("y[i<3] : i64 = i < 1 < 2\noutput y"), "E-te-syntax 1:22");
  EXPECT_EQ(at("y[i<3] : i64 = exp(i)\noutput y"), "E-te-type 1:16");
  EXPECT_EQ(at("y[i@99999999<3] : i64 = i\noutput y"), "E-te-syntax 1:5");
}

TEST(TeText, DepthIsLimited) {
  for (const std::string open : {"(", "-", "!", "abs(", "sum(k<2) ", "size("}) {
    std::string text;
    for (int i = 0; i < 100000; ++i) text += open;
    EXPECT_FALSE(parse_expr(text + "1").ok());
  }
  std::string chain = "1";
  for (int i = 0; i < 100000; ++i) chain += " + 1";
  const auto e = parse_expr(chain);
  ASSERT_FALSE(e.ok());
  EXPECT_EQ(e.error().code, "E-te-depth");
}

TEST(TeText, GarbageIsRefusedNotFatal) {
  Random random(7);
  const std::vector<std::string> pieces = {"input",
                                           "output",
                                           "a",
                                           "y",
                                           "[",
                                           "]",
                                           "(",
                                           ")",
                                           "<",
                                           "<=",
                                           ":",
                                           "f32",
                                           "i64",
                                           "=",
                                           "\n",
                                           "1",
                                           "-",
                                           ".5",
                                           "e9",
                                           "sum",
                                           "max",
                                           "where",
                                           "select",
                                           ",",
                                           "@",
                                           "$",
                                           "0",
                                           "size",
                                           "nan",
                                           "inf",
                                           "\"",
                                           "\\x",
                                           "==",
                                           "!",
                                           "&&",
                                           "u64",
                                           "99999999999999999999",
                                           "true",
                                           "k",
                                           "#",
                                           "\x80"};
  for (int n = 0; n < 50000; ++n) {
    std::string text;
    for (uint64_t i = random.below(24); i-- > 0;)
      text += pieces[random.below(pieces.size())] + (random.flip() ? " " : "");
    (void)parse_program(text).ok();
    if (const auto e = parse_expr(text); e.ok()) {
      const auto back = parse_expr(print(*e));
      ASSERT_TRUE(back.ok()) << text << "\n" << print(*e) << "\n" << back.error().to_string();
      EXPECT_TRUE(equal(*e, *back)) << text << "\n" << print(*e);
    }
  }
}

}  // namespace
}  // namespace isomer::te
