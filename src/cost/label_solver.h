// The least sum of tables over small variables, exactly: variables are eliminated one by one, each time the one whose tables
// together have the fewest entries. On trees that is dynamic programming; on graphs as networks are, tables stay small.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

namespace isomer::cost {

// Costs over some variables: the last one varies fastest. An infinite cost forbids.
struct CostTable {
  std::vector<size_t> variables;  // distinct
  std::vector<double> costs;
};

struct Assignment {
  std::vector<size_t> choice;  // by variable; the smallest of equal ones
  double cost = 0;
};

// `sizes`: choices of each variable, at least one. Nothing when a table would exceed `limit` entries.
std::optional<Assignment> solve(const std::vector<size_t>& sizes, const std::vector<CostTable>& tables,
                                size_t limit = size_t{1} << 20);

}  // namespace isomer::cost
