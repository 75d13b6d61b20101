// Rows of values that would push each other out of the first cache: whoever reads many of them at once has them a line apart, or
// gathers them first.
#pragma once

#include <cstdint>
#include <vector>

#include "compile/group.h"
#include "compile/storage.h"

namespace isomer::compile {

// Whether rows so many bytes apart push each other out so much that a product with so many columns gathers them first: all of
// them lie in the same sets of the cache, or half of them, and the more columns there are the more often rows are read.
bool worth_gathering(int64_t pitch, int64_t columns);

// At least so many elements in an odd number of cache lines: what lies so far apart falls into different sets.
constexpr int64_t kLineFloats = 16;
int64_t odd_lines(int64_t elements, int64_t line = kLineFloats);

// What a product makes and another one reads where it lies, row by row, or a grouped convolution position by position, gets a
// line between its rows where these would lie in few sets. Inputs, outputs, views (`fixed`), parts and wholes stay as they are.
void set_rows_apart(const StageGraph& graph, const std::vector<Group>& groups, const std::vector<bool>& fixed,
                    std::vector<Layout>& layouts);

}  // namespace isomer::compile
