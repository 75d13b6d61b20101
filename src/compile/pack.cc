#include "compile/pack.h"

#include <algorithm>

namespace isomer::compile {

namespace {

template <class T>
void pack(const T* from, T* to, const Packing& p) {
  const auto columns = static_cast<int64_t>(p.column.size());
  for (const int64_t b : p.batch)
    for (int64_t panel = 0; panel < p.panels(); ++panel) {
      const int64_t first = panel * p.width, count = std::min(p.width, columns - first);
      const int64_t* column = p.column.data() + first;
      for (const int64_t k : p.depth) {
        const T* row = from + b + k;
        for (int64_t c = 0; c < count; ++c) to[c] = row[column[c]];
        to += p.width;  // the rest stays zero
      }
    }
}

}  // namespace

Tensor packed(const Tensor& source, const Packing& packing) {
  Tensor out(source.dtype(), {packing.elements()});
  switch (size_of(source.dtype())) {
    case 1: pack(source.as<uint8_t>().data(), out.mutable_as<uint8_t>(), packing); break;
    case 2: pack(source.as<uint16_t>().data(), out.mutable_as<uint16_t>(), packing); break;
    case 4: pack(source.as<uint32_t>().data(), out.mutable_as<uint32_t>(), packing); break;
    default: pack(source.as<uint64_t>().data(), out.mutable_as<uint64_t>(), packing); break;
  }
  return out;
}

}  // namespace isomer::compile
