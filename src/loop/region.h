// What part of a buffer a set of accesses touches while the loops outside of some level stand still: per dim a base of
// outer variables and a number of elements. An over-approximation, never too small for what is evaluated in range.
#pragma once

#include <vector>

#include "loop/nest.h"

namespace isomer::loop {

struct Access {
  std::vector<const Loop*> loops;  // around it, outermost first
  std::vector<te::Expr> indices;   // over loop variables
  const Block* block = nullptr;
  bool write = false;
};

// Accesses of every buffer of the nest by the items; loops that stand around the items are given in `around`.
std::vector<std::vector<Access>> accesses_of(const Nest& nest, const std::vector<const Item*>& items,
                                             std::vector<const Loop*> around = {});

struct Side {  // base <= index < base + extent
  Affine base;
  int64_t extent = 0;
};

// With the first `outer` loops of every access standing still. A dim without a common base is taken whole.
std::vector<Side> region_of(const std::vector<const Access*>& accesses, size_t outer, const std::vector<int64_t>& dims);

// Whether the boxes of all iterations of `loops` cover all of `dims` with no element twice: each loop moves the box by
// what the loops inside of it cover. A last box may stick out.
bool tiles(const std::vector<Side>& sides, const std::vector<const Loop*>& loops, const std::vector<int64_t>& dims);

// Whether two iterations of the loop, other outer loops standing still, never have an element in common.
bool separates(const std::vector<Side>& sides, const Loop& loop);

// Whether every iteration of a loop around the block at `path` makes it write other elements; false for one that only
// repeats the block, wholly or in part.
bool separates(const Nest& nest, const Path& block, const Loop& loop);

}  // namespace isomer::loop
