// What generation finds at small sizes, what it must not find, and that it finds the same twice.
#include "propose/generate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "ops/table.h"
#include "propose/candidate.h"
#include "rewrite/instantiate.h"

namespace isomer::propose {
namespace {

// The matrices of TASO's set, which take a moment; made once.
const Generated& small(int size) {
  static std::map<int, Generated> known;
  const auto it = known.find(size);
  if (it != known.end()) return it->second;
  GenerateOptions o;
  o.family = "matrix";
  o.size = size;
  o.threads = 2;
  auto g = generate(o, ops::table());
  EXPECT_TRUE(g.ok());
  return known[size] = *std::move(g);
}

std::string all_text(const Generated& g) {
  std::string s;
  for (const rewrite::Rule& r : g.rules) s += rewrite::print(r) + "\n";
  return s;
}

// Operators of a side in order, "matmul add".
std::string ops_of(const rewrite::Side& side) {
  std::string s;
  for (const rewrite::Call& c : side.calls) s += (s.empty() ? "" : " ") + c.op->name;
  return s;
}

// Whether some rule takes the left operators to the right ones, in this direction or the other.
bool found(const Generated& g, const std::string& left, const std::string& right) {
  return std::any_of(g.rules.begin(), g.rules.end(), [&](const rewrite::Rule& r) {
    const std::string l = ops_of(r.lhs), q = ops_of(r.rhs);
    return (l == left && q == right) || (l == right && q == left);
  });
}

TEST(Generate, FindsTheKnownLawsOfMatrices) {
  const Generated& g = small(2);
  EXPECT_TRUE(found(g, "add", "add"));
  EXPECT_TRUE(found(g, "add add", "add add"));
  EXPECT_TRUE(found(g, "matmul matmul", "matmul matmul"));
  EXPECT_TRUE(found(g, "transpose transpose", ""));
  EXPECT_TRUE(found(g, "relu transpose", "transpose relu"));
  EXPECT_TRUE(found(g, "relu relu", "relu"));
}

TEST(Generate, FindsWhatNeedsThreeOperators) {
  const Generated& g = small(3);
  EXPECT_TRUE(found(g, "add matmul", "matmul matmul add")) << all_text(g);
  EXPECT_TRUE(found(g, "concat relu", "relu relu concat"));
  EXPECT_TRUE(found(g, "matmul matmul", "concat matmul split"));
  EXPECT_TRUE(found(g, "matmul transpose", "transpose transpose matmul"));
}

TEST(Generate, HasNoRuleThatFailsAtOtherSizes) {
  for (const int size : {2, 3})
    for (const rewrite::Rule& r : small(size).rules) {
      const std::string l = ops_of(r.lhs), q = ops_of(r.rhs);
      // Relu is not linear, and a product is not its factor.
      EXPECT_FALSE(l == "add relu" && q == "relu relu add") << rewrite::print(r);
      EXPECT_FALSE(l == "matmul mul" && q == "matmul") << rewrite::print(r);
    }
}

TEST(Generate, GivesSizesThatWereEqualByChoiceNamesOfTheirOwn) {
  const Generated& g = small(2);
  const auto it = std::find_if(g.rules.begin(), g.rules.end(), [](const rewrite::Rule& r) {
    return ops_of(r.lhs) == "matmul matmul" && ops_of(r.rhs) == "matmul matmul";
  });
  ASSERT_NE(it, g.rules.end());
  EXPECT_EQ(it->symbols.size(), 4U) << rewrite::print(*it);
}

TEST(Generate, GivesTheSameBytesWithAnyNumberOfThreads) {
  GenerateOptions o;
  o.family = "matrix";
  o.size = 2;
  o.threads = 1;
  const auto g = generate(o, ops::table());
  ASSERT_TRUE(g.ok());
  EXPECT_EQ(all_text(*g), all_text(small(2)));
}

TEST(Generate, CountsEveryStage) {
  for (const FamilyCounts& c : small(2).families) {
    EXPECT_GT(c.graphs, c.classes);
    EXPECT_GE(c.pairs, c.renamed);
    EXPECT_GE(c.renamed, c.unshared);
    EXPECT_GE(c.unshared, c.general);
    EXPECT_GE(c.general, c.derived);
    EXPECT_GE(c.derived, c.separated);
    EXPECT_GT(c.separated, 0U);
  }
}

TEST(Generate, RefusesUnknownSetsAndSizes) {
  GenerateOptions o;
  o.set = "nothing";
  EXPECT_FALSE(generate(o, ops::table()).ok());
  o.set = "taso";
  o.size = 0;
  EXPECT_FALSE(generate(o, ops::table()).ok());
  o.size = 9;
  EXPECT_FALSE(generate(o, ops::table()).ok());
}

}  // namespace
}  // namespace isomer::propose
