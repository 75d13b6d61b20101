// Two products with rows in between, as one kernel: what lies between them is never stored in full. A task computes some rows of
// the first product in its own memory, what the rows become (a softmax), and those rows of the second product: attention.
#pragma once

#include <optional>
#include <vector>

#include "compile/group.h"
#include "compile/kernel.h"
#include "compile/lower.h"

namespace isomer::compile {

// Groups by number. The rows group reads what the first product makes, the second product has the rows as its left side, and
// nobody else reads either.
struct Chain {
  size_t first = 0, rows = 0, second = 0;
};
std::vector<Chain> chains_of(const StageGraph& graph, const std::vector<Group>& groups);

// The kernels of all three. Nothing where the parts do not agree on what a row is.
std::optional<std::vector<Kernel>> chained_kernels(const Scene& scene, const Group& first, const Group& rows,
                                                   const Group& second, const LowerOptions& options);

}  // namespace isomer::compile
