// Algorithms for products of floats that round more than a sum of products does.
#pragma once

namespace isomer::compile {

struct Rounding {
  bool split = false;      // floats in two parts, which leave out some last bits
  bool filtering = false;  // fewer products by minimal filtering (Winograd)

  bool any() const { return split || filtering; }
  bool operator==(const Rounding&) const = default;
};

}  // namespace isomer::compile
