// Minimal filtering along one axis, F(m, r): m outputs of a filter with r taps by m + r - 1 products instead of m * r.
#pragma once

#include <cstdint>
#include <vector>

namespace isomer::compile {

// outputs = output * ((taps * g) . (input * d)), for a filter g and the inputs d of a patch.
struct Filtering {
  using Matrix = std::vector<std::vector<double>>;
  Matrix input;   // patch x patch: B^T
  Matrix taps;    // patch x r: G
  Matrix output;  // m x patch: A^T
  int64_t outputs() const { return static_cast<int64_t>(output.size()); }
  int64_t patch() const { return static_cast<int64_t>(input.size()); }
};

// Up to 8 products, by evaluation at 0, 1, -1, 2, -2, 1/2, -1/2 and infinity; F(1, 1) changes nothing.
Filtering filtering(int64_t outputs, int64_t taps);

// F(4, 3) where the transformed numbers lose bits before they are multiplied: by evaluation at 0, 3/4, -3/4, 3/2, -3/2 and
// infinity, which makes half of the error of the whole numbers above and takes more multiplications. Others: as above.
Filtering robust_filtering(int64_t outputs, int64_t taps);

}  // namespace isomer::compile
