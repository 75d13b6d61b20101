#include "tensor/random_fill.h"

#include <algorithm>

namespace isomer {

Tensor random_tensor(DType dtype, std::vector<int64_t> dims, Random& random, const FillRange& range) {
  Tensor t(dtype, std::move(dims));
  int64_t low = range.int_low, high = range.int_high;
  if (!is_float(dtype)) {
    // U64's highest value does not fit; ranges given in 64 signed bits are all below it.
    const int64_t most = dtype == DType::U64 ? INT64_MAX : highest_int(dtype);
    low = std::clamp(low, lowest_int(dtype), most);
    high = std::clamp(high, low, most);
    if (dtype == DType::Bool) low = 0, high = 1;
  }
  const auto base = static_cast<uint64_t>(low), count = static_cast<uint64_t>(high) - base + 1;  // 0: all 2^64
  for (int64_t i = 0; i < t.size(); ++i) {
    if (is_float(dtype))
      t.set_real(i, random.uniform(range.low, range.high));
    else
      t.set_integer(i, static_cast<int64_t>(base + (count == 0 ? random.next() : random.below(count))));
  }
  return t;
}

}  // namespace isomer
