#include <gtest/gtest.h>

#include "apply.h"

namespace isomer::ops {
namespace {

using Ints = std::vector<int64_t>;
using Reals = std::vector<double>;

ir::Attrs equation(std::string text) { return {{"equation", std::move(text)}}; }
Tensor counting(Ints dims) {
  int64_t n = 1;
  for (int64_t d : dims) n *= d;
  Reals v;
  for (int64_t i = 0; i < n; ++i) v.push_back(static_cast<double>(i));
  return reals(std::move(dims), v);
}

TEST(Einsum, RepeatedLettersEllipsisAndImplicitOutput) {
  EXPECT_EQ(apply("einsum", {counting({3, 3})}, equation("ii->i"))->to_reals(), (Reals{0, 4, 8}));
  EXPECT_EQ(apply("einsum", {counting({3, 3})}, equation("ii"))->to_reals(), Reals{12});
  EXPECT_EQ(apply("einsum", {counting({2, 3})}, equation("ba"))->dims(), (Ints{3, 2}));
  EXPECT_EQ(apply("einsum", {counting({2, 3, 4}), counting({4, 5})}, equation("...ij, jk"))->dims(), (Ints{2, 3, 5}));
  EXPECT_EQ(apply("einsum", {counting({2, 3}), counting({3})}, equation("i...,...->i..."))->dims(), (Ints{2, 3}));
  EXPECT_EQ(apply("einsum", {reals({}, {3}), counting({2})}, equation(",a->a"))->to_reals(), (Reals{0, 3}));
  EXPECT_EQ(apply("einsum", {counting({2}), counting({3}), counting({2, 3})}, equation("a,b,ab->"))->to_reals(),
            Reals{14});
}

TEST(Einsum, WrongEquationsAreRefused) {
  const auto m = counting({2, 3});
  for (const char* bad : {"ij,jk->ik", "ijk->i", "i->i", "ij->k", "ij->ii", "i1->i", "i..j->i", "......ij", "ij->i->j",
                          "", "->", "ij,", "i.", "ij->..."})
    EXPECT_FALSE(apply("einsum", {m}, equation(bad)).ok() && std::string(bad) != "ij->...") << bad;
  EXPECT_FALSE(apply("einsum", {m, m}, equation("ij,jk->ik")).ok());
  EXPECT_FALSE(apply("einsum", {m}).ok());
}

TEST(Gemm, TransposesScalesAndBroadcasts) {
  const auto a = counting({2, 3}), b = counting({3, 2});
  EXPECT_EQ(apply("gemm", {a, b})->to_reals(), (Reals{10, 13, 28, 40}));
  EXPECT_EQ(apply("gemm", {a, b, reals({}, {1})}, {{"alpha", 2.0}, {"beta", 3.0}})->to_reals(),
            (Reals{23, 29, 59, 83}));
  const auto t = apply("gemm", {a, b}, {{"transA", int64_t{1}}, {"transB", int64_t{1}}});
  EXPECT_EQ(t->dims(), (Ints{3, 3}));
  EXPECT_EQ(apply("gemm", {integers({1, 1}, {3}), integers({1, 1}, {5})}, {{"alpha", 0.5}})->to_ints(), Ints{7});
  EXPECT_EQ(apply("gemm", {counting({2, 0}), counting({0, 2})})->to_reals(), Reals(4, 0));
}

TEST(Gemm, WrongShapesAreRefused) {
  const auto a = counting({2, 3}), b = counting({3, 2});
  EXPECT_FALSE(apply("gemm", {a, a}).ok());
  EXPECT_FALSE(apply("gemm", {a, counting({3})}).ok());
  EXPECT_FALSE(apply("gemm", {a, b, counting({3})}).ok());
  EXPECT_FALSE(apply("gemm", {a, b, counting({1, 2, 2})}).ok());
}

TEST(Det, OfBatchesSingularAndEmptyMatrices) {
  EXPECT_NEAR(apply("det", {reals({2, 2}, {0, 2, 3, 4})})->to_reals()[0], -6, 1e-6);
  EXPECT_EQ(apply("det", {reals({2, 2, 2}, {1, 2, 2, 4, 2, 0, 0, 5})})->to_reals(), (Reals{0, 10}));
  EXPECT_EQ(apply("det", {reals({2, 0, 0}, {})})->to_reals(), (Reals{1, 1}));
  EXPECT_FALSE(apply("det", {reals({2, 3}, {1, 2, 3, 4, 5, 6})}).ok());
  EXPECT_FALSE(apply("det", {reals({2}, {1, 2})}).ok());
}

}  // namespace
}  // namespace isomer::ops
