// Benchmark networks with seeded weights and the layer dimensions of their papers, written as PyTorch exports them:
// batch normalisation apart, gelu by erf, layer normalisation by parts unless `fused_norms` asks otherwise.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/expected.h"
#include "ir/graph.h"

namespace isomer::zoo {

// Zero means the network's own value.
struct Options {
  int64_t batch = 1;
  int64_t image = 0;     // height and width of image inputs
  int64_t sequence = 0;  // tokens, steps or frames of sequence inputs
  int64_t layers = 0;    // repeated blocks
  bool fused_norms = false;
  uint64_t seed = 1;
};

struct Network {
  std::string name;
  std::string doc;
  int64_t image = 0;  // standard values; 0: the option does not apply
  int64_t sequence = 0;
  int64_t layers = 0;
};

const std::vector<Network>& networks();  // sorted by name
Expected<ir::Graph> build(std::string_view name, const ir::OpTable& table, const Options& options = {});

}  // namespace isomer::zoo
