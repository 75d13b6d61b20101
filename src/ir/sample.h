// Sample calls of operator records: one line of text becomes a one-node graph and seeded inputs for it.
//   concat(f32[2,3], i64[2] in 0..3, [1,2], i64 3, f32[2] [0.5,2], _){axis=1} -> 2
// A type alone is a random input; "in lo..hi" draws from [lo, hi); [..] is an i64 (or f32) vector constant; a type with
// data is a constant; _ is absent. "-> n" asks for n results instead of the required ones.
#pragma once

#include <string_view>
#include <vector>

#include "ir/graph.h"

namespace isomer::ir {

struct Sample {
  Graph graph;
  std::vector<Tensor> inputs;  // in the order of the graph's inputs
};

Expected<Sample> make_sample(std::string_view text, const OpTable& table, uint64_t seed);

}  // namespace isomer::ir
