#include "te/field_domain.h"

#include <gtest/gtest.h>

#include "base/random.h"
#include "te/parse.h"

namespace isomer::te {
namespace {

using Elements = Array<FieldDomain>;

TEST(TeField, Arithmetic) {
  Random r(1);
  for (int n = 0; n < 1000; ++n) {
    const FieldElement a(r.next()), b(r.next()), c(r.next());
    EXPECT_EQ((a + b) * c, a * c + b * c);
    EXPECT_EQ(a - a, FieldElement(0));
    EXPECT_EQ(a + -a, FieldElement(0));
    if (!a.is_zero()) {
      EXPECT_EQ(a * a.inverse(), FieldElement(1));
    }
    EXPECT_LT((a * b).value(), FieldElement::kPrime);
  }
  EXPECT_EQ(-FieldElement(0), FieldElement(0));
  EXPECT_EQ(FieldElement::of(int64_t{-1}), FieldElement(FieldElement::kPrime - 1));
  EXPECT_EQ(FieldElement::of(std::numeric_limits<int64_t>::min()), -FieldElement(uint64_t{1} << 63));
}

TEST(TeField, LiteralsAreExact) {
  EXPECT_EQ(*FieldElement::of(3.0), FieldElement(3));
  EXPECT_EQ(*FieldElement::of(-0.0), FieldElement(0));
  EXPECT_EQ(*FieldElement::of(0.75) * FieldElement(4), FieldElement(3));
  EXPECT_EQ(*FieldElement::of(-2.5) * FieldElement(2), FieldElement::of(int64_t{-5}));
  EXPECT_EQ(*FieldElement::of(0x1p100), FieldElement(2).power(100));
  EXPECT_EQ(*FieldElement::of(5e-324) * FieldElement(2).power(1074), FieldElement(1));
  EXPECT_FALSE(FieldElement::of(std::nan("")).has_value());
  EXPECT_FALSE(FieldElement::of(INFINITY).has_value());
}

Expected<std::vector<Elements>> run(const std::string& body) {
  const auto p = parse_program("input a : f32[3]\ninput b : f32[3]\ny[i<3] : f32 = " + body + "\noutput y\n");
  if (!p.ok()) return p.error();
  Random r(5);
  std::vector<Elements> inputs(2, Elements{DType::F32, {3}, {}, {}});
  for (Elements& e : inputs)
    for (int i = 0; i < 3; ++i) e.reals.push_back(FieldElement(r.next()));
  const FieldDomain domain;
  return Evaluator<FieldDomain>(domain).run(*p, inputs);
}
bool agree(const std::string& x, const std::string& y) {
  const auto a = run(x), b = run(y);
  return a.ok() && b.ok() && (*a)[0].reals == (*b)[0].reals;
}

TEST(TeField, EqualFunctionsAgreeAndOthersDoNot) {
  EXPECT_TRUE(agree("(a[i] + b[i])*(a[i] - b[i])", "a[i]*a[i] - b[i]*b[i]"));
  EXPECT_TRUE(agree("a[i]/b[i]*b[i]", "a[i]"));
  EXPECT_TRUE(agree("a[i]*0.5 + a[i]*0.25", "a[i]*0.75"));
  EXPECT_TRUE(agree("exp(a[i] + b[i])", "exp(b[i] + a[i])"));
  EXPECT_FALSE(agree("exp(a[i])", "log(a[i])"));
  EXPECT_FALSE(agree("a[i]*b[i]", "a[i] + b[i]"));
  EXPECT_TRUE(agree("max(k<3) a[k]", "max(a[2],max(a[1],a[0]))"));
  EXPECT_TRUE(agree("min(max(a[i],b[i]),b[i])", "b[i]"));
  EXPECT_FALSE(agree("max(a[i],b[i])", "min(a[i],b[i])"));
}

TEST(TeField, WhatNeedsAnOrderIsUnsupported) {
  EXPECT_FALSE(run("select(a[i] < b[i],a[i],b[i])").ok());
  EXPECT_FALSE(run("f32(i64(a[i]))").ok());
  EXPECT_FALSE(run("select(isnan(a[i]),a[i],b[i])").ok());
  EXPECT_FALSE(run("f32(argmax(k<3) a[k])").ok());
  EXPECT_FALSE(run("a[i]/(b[i] - b[i])").ok());
}

}  // namespace
}  // namespace isomer::te
