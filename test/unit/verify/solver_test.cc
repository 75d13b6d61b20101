// Entailment of polynomial inequalities over the integers.
#include "verify/solver.h"

#include <gtest/gtest.h>

namespace isomer::verify {
namespace {

class SolverTest : public testing::Test {
 protected:
  Poly size(const std::string& name, int64_t at_least = 1) { return Poly::atom(atoms.size(name, at_least)); }
  Poly index(const std::string& name) { return Poly::atom(atoms.fresh(AtomKind::Free, name)); }

  Atoms atoms;
  Solver solver{atoms};
};

TEST_F(SolverTest, LinearFacts) {
  const Poly a = size("A"), i = index("i");
  EXPECT_TRUE(solver.entails({}, a - Poly(1)));
  EXPECT_FALSE(solver.entails({}, a - Poly(2)));
  EXPECT_TRUE(solver.entails({i, a - Poly(1) - i}, a + Poly(3) - i));
  EXPECT_FALSE(solver.entails({i, a - Poly(1) - i}, a - Poly(2) - i));
  EXPECT_TRUE(solver.infeasible({i - a, a - Poly(1) - i}));
  EXPECT_FALSE(solver.infeasible({i - a, a - i}));
}

TEST_F(SolverTest, Integrality) {
  const Poly i = index("i");
  EXPECT_TRUE(solver.infeasible({i * Poly(2) - Poly(1), Poly(1) - i * Poly(2)}));  // 2i = 1
  EXPECT_TRUE(solver.entails({i * Poly(3) - Poly(1)}, i - Poly(1)));               // 3i >= 1 says i >= 1
}

TEST_F(SolverTest, ProductsOfDigits) {
  const Poly a = size("A"), b = size("B"), c = size("C"), i = index("i"), j = index("j"), k = index("k");
  const Guards digits = {i, a - Poly(1) - i, j, b - Poly(1) - j, k, c - Poly(1) - k};
  EXPECT_TRUE(solver.entails(digits, a * b - Poly(1) - (i * b + j)));
  EXPECT_TRUE(solver.entails(digits, a * b * c - Poly(1) - (i * b * c + j * c + k)));
  EXPECT_FALSE(solver.entails(digits, a * b - Poly(1) - (i * b + j + Poly(1))));
  EXPECT_FALSE(solver.entails(digits, a * b - Poly(1) - (i * a + j)));
}

TEST_F(SolverTest, SignsOfProducts) {
  const Poly s = size("s"), v = index("v");
  EXPECT_TRUE(solver.entails({s * v}, v));
  EXPECT_TRUE(solver.entails({s * v - Poly(1)}, v - Poly(1)));
  const Poly z = size("z", 0);
  EXPECT_FALSE(solver.entails({z * v}, v));  // z may be 0
}

TEST_F(SolverTest, Quotients) {
  const Poly a = size("A"), b = size("B"), i = index("i");
  const Guards range = {i, a * b - Poly(1) - i};
  const Poly q = atoms.quotient(i, b);
  EXPECT_TRUE(solver.entails(range, q));
  EXPECT_TRUE(solver.entails(range, a - Poly(1) - q));
  EXPECT_TRUE(solver.entails(range, i - b * q));
  EXPECT_TRUE(solver.entails(range, b - Poly(1) - (i - b * q)));
  EXPECT_FALSE(solver.entails(range, a - Poly(2) - q));
  EXPECT_TRUE(atoms.quotient(a * b + b, b) == a + Poly(1));
  EXPECT_TRUE(atoms.quotient(Poly(-7), Poly(2)) == Poly(-4));
}

TEST_F(SolverTest, QuotientsOfSizes) {
  const Poly h = size("H"), s = size("s"), o = index("o");
  const Poly out = atoms.quotient(h - Poly(1), s) + Poly(1);
  // The last window of a strided walk starts inside.
  EXPECT_TRUE(solver.entails({o, out - Poly(1) - o}, h - Poly(1) - s * o));
  EXPECT_FALSE(solver.entails({o, out - o}, h - Poly(1) - s * o));
}

TEST_F(SolverTest, NeverYesToWhatSomeIntegersBreak) {
  // Every "yes" on small random systems is checked on a grid.
  uint64_t state = 12345;
  const auto next = [&](int64_t n) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    return static_cast<int64_t>((state >> 33) % static_cast<uint64_t>(n));
  };
  const AtomId a = atoms.size("A", 1), b = atoms.size("B", 0), i = atoms.fresh(AtomKind::Free, "i"),
               j = atoms.fresh(AtomKind::Free, "j");
  const std::vector<AtomId> ids = {a, b, i, j};
  const auto draw = [&] {
    Poly p(next(7) - 3);
    for (int t = 0; t < 3; ++t) {
      Poly m(next(5) - 2);
      for (int d = next(2) == 0 ? 1 : 2; d > 0; --d) m = m * Poly::atom(ids[static_cast<size_t>(next(4))]);
      p = p + m;
    }
    return p;
  };
  const auto value = [&](const Poly& p, const int64_t* v) {
    int64_t total = 0;
    for (const auto& [m, c] : p.terms()) {
      int64_t t = c;
      for (AtomId x : m) t *= v[std::find(ids.begin(), ids.end(), x) - ids.begin()];
      total += t;
    }
    return total;
  };
  int yes = 0;
  for (int round = 0; round < 600; ++round) {
    const Guards g = {draw(), draw(), draw()};
    const Poly p = draw();
    if (!solver.entails(g, p)) continue;
    ++yes;
    for (int64_t va = 1; va < 5; ++va)
      for (int64_t vb = 0; vb < 5; ++vb)
        for (int64_t vi = -4; vi < 5; ++vi)
          for (int64_t vj = -4; vj < 5; ++vj) {
            const int64_t v[] = {va, vb, vi, vj};
            bool holds = true;
            for (const Poly& x : g) holds = holds && value(x, v) >= 0;
            if (holds) {
              ASSERT_GE(value(p, v), 0) << atoms.to_string(p) << " at " << va << " " << vb << " " << vi << " " << vj;
            }
          }
  }
  EXPECT_GT(yes, 20);
}

}  // namespace
}  // namespace isomer::verify
