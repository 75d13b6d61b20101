// The tables of a module (runtime/module/module.h) as an object to be linked.
#pragma once

#include <string>
#include <vector>

#include "base/expected.h"
#include "compile/module.h"

namespace isomer::compile {

// The weights of all variants in the file, equal ones once. Offsets count from the first weight.
struct WeightLayout {
  struct Piece {
    const std::byte* bytes = nullptr;
    uint64_t size = 0;
    uint64_t offset = 0;
  };
  std::vector<Piece> pieces;                   // by offset
  std::vector<std::vector<uint64_t>> offsets;  // of each weight of each variant
  uint64_t bytes = 0;                          // with alignment and the slack behind the last one
};

WeightLayout layout_weights(const std::vector<Variant>& variants);

// See write_module.
Expected<std::string> module_tables(const std::vector<Variant>& variants, size_t sizes, const WeightLayout& weights);

}  // namespace isomer::compile
