// The small kernels around loops and branches of a model: copies, counters, conditions, elements of stacked results.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "loop/stmt.h"
#include "tensor/dtype.h"

namespace isomer::compile {

// Integers of the same size, so that copies keep every bit.
DType bits_of(DType type);

// Of a tensor with these dims.
int64_t elements_of(const std::vector<int64_t>& dims);

// (from, to): so many elements as they are.
loop::Function copy_loops(DType type, int64_t elements);
// (from, count, to): from[outer, inner] is to[outer, count, inner], or the same counted from the end.
loop::Function put_loops(DType type, int64_t outer, int64_t inner, int64_t length, bool from_the_end);

// A loop goes on while its condition holds and it has run less than `most` times, where there are such.
struct Goes {
  bool condition = false;            // an argument says whether
  bool counted = false;              // an argument says how often at most,
  std::optional<int64_t> most = {};  // or it is known
};
// ([condition,] [most,] count, goes): at the start, or with `next` after a round.
loop::Function count_loops(const Goes& goes, bool next);

}  // namespace isomer::compile
