#include "cost/label_solver.h"

#include <gtest/gtest.h>

#include <limits>

#include "base/random.h"

namespace isomer::cost {
namespace {

double cost_of(const std::vector<size_t>& sizes, const std::vector<CostTable>& tables,
               const std::vector<size_t>& choice) {
  double sum = 0;
  for (const CostTable& t : tables) {
    size_t at = 0;
    for (const size_t v : t.variables) at = at * sizes[v] + choice[v];
    sum += t.costs[at];
  }
  return sum;
}

double least_by_trying(const std::vector<size_t>& sizes, const std::vector<CostTable>& tables) {
  double least = std::numeric_limits<double>::infinity();
  std::vector<size_t> choice(sizes.size());
  while (true) {
    least = std::min(least, cost_of(sizes, tables, choice));
    size_t v = 0;
    while (v < sizes.size() && ++choice[v] == sizes[v]) choice[v++] = 0;
    if (v == sizes.size()) return least;
  }
}

TEST(LabelSolver, FindsTheLeastSumOfRandomTables) {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    std::vector<size_t> sizes(1 + random.below(7));
    for (size_t& s : sizes) s = 1 + random.below(3);
    std::vector<CostTable> tables(random.below(8));
    for (CostTable& t : tables) {
      size_t entries = 1;
      for (size_t v = 0; v < sizes.size(); ++v)
        if (random.below(3) == 0) {
          t.variables.push_back(v);
          entries *= sizes[v];
        }
      for (size_t i = 0; i < entries; ++i) t.costs.push_back(static_cast<double>(random.below(10)));
    }
    const auto found = solve(sizes, tables);
    ASSERT_TRUE(found.has_value());
    EXPECT_EQ(found->cost, least_by_trying(sizes, tables));
    EXPECT_EQ(cost_of(sizes, tables, found->choice), found->cost);
  }
}

TEST(LabelSolver, RefusesWhatIsTooEntangled) {
  // Every pair of forty variables has a table of its own.
  const std::vector<size_t> sizes(40, 2);
  std::vector<CostTable> tables;
  for (size_t a = 0; a < sizes.size(); ++a)
    for (size_t b = 0; b < a; ++b) tables.push_back({{a, b}, {0, 1, 1, 0}});
  EXPECT_FALSE(solve(sizes, tables).has_value());
}

// A chain is solved in time that grows with its length alone.
TEST(LabelSolver, SolvesLongChains) {
  const std::vector<size_t> sizes(5000, 3);
  std::vector<CostTable> tables = {{{0}, {5, 0, 5}}};
  for (size_t v = 1; v < sizes.size(); ++v) tables.push_back({{v - 1, v}, {0, 1, 1, 1, 0, 1, 1, 1, 0}});
  const auto found = solve(sizes, tables);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->cost, 0);
  EXPECT_EQ(found->choice, std::vector<size_t>(5000, 1));
}

}  // namespace
}  // namespace isomer::cost
