#include "compile/pack.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace isomer::compile {

namespace {

bool are_neighbours(const int64_t* column, int64_t count) {
  for (int64_t c = 1; c < count; ++c)
    if (column[c] != column[0] + c) return false;
  return true;
}

template <class T>
void pack(const T* from, T* to, const Packing& p) {
  const auto columns = static_cast<int64_t>(p.column.size());
  for (const int64_t b : p.batch)
    for (int64_t panel = 0; panel < p.panels(); ++panel) {
      const int64_t first = panel * p.width, count = std::min(p.width, columns - first);
      const int64_t* column = p.column.data() + first;
      const bool adjoin = are_neighbours(column, count);
      for (size_t k = 0; k < p.depth.size(); ++k) {
        const int64_t together = p.together, in_step = static_cast<int64_t>(k) % together;
        if (p.depth[k] != Packing::kNothing) {
          const T* row = from + b + p.depth[k];
          if (together == 1 && adjoin)
            std::copy_n(row + column[0], count, to);
          else
            for (int64_t c = 0; c < count; ++c) to[c * together + in_step] = row[column[c]];
        }
        if (in_step == together - 1) to += p.width * together;  // the rest stays zero
      }
    }
}

// The nearest BF16, its bits; ties to even. What is not finite stays so.
uint16_t to_bf16(float x) {
  const auto bits = std::bit_cast<uint32_t>(x);
  if (std::isnan(x)) return static_cast<uint16_t>(bits >> 16 | 0x40);
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

// Two steps of the depth side by side, from columns that lie side by side.
void split_pair(const float* first, const float* second, int64_t count, uint16_t* high, uint16_t* low) {
  const auto rest = [](float x, uint16_t h) { return to_bf16(x - std::bit_cast<float>(uint32_t{h} << 16)); };
  for (int64_t c = 0; c < count; ++c) {
    const uint16_t a = to_bf16(first[c]), b = to_bf16(second[c]);
    high[2 * c] = a;
    high[2 * c + 1] = b;
    low[2 * c] = rest(first[c], a);
    low[2 * c + 1] = rest(second[c], b);
  }
}

void split(const float* from, uint16_t* to, const Packing& p) {
  const auto columns = static_cast<int64_t>(p.column.size()), depth = static_cast<int64_t>(p.depth.size());
  for (const int64_t b : p.batch)
    for (int64_t panel = 0; panel < p.panels(); ++panel, to += 2 * depth * p.width) {
      const int64_t first = panel * p.width, count = std::min(p.width, columns - first);
      const int64_t* column = p.column.data() + first;
      const bool adjoin = are_neighbours(column, count);
      for (int64_t k = 0; k < depth; ++k) {
        const int64_t at = p.depth[static_cast<size_t>(k)];
        if (at == Packing::kNothing) continue;
        const float* row = from + b + at;
        const int64_t start = k / p.split * p.split, in_chunk = k - start;
        const int64_t part = std::min(p.split, depth - start) * p.width;
        uint16_t* out = to + 2 * start * p.width + in_chunk / 2 * 2 * p.width + in_chunk % 2;
        const int64_t next = k + 1 < depth ? p.depth[static_cast<size_t>(k + 1)] : Packing::kNothing;
        if (adjoin && in_chunk % 2 == 0 && next != Packing::kNothing) {
          split_pair(row + column[0], from + b + next + column[0], count, out, out + part);
          ++k;
          continue;
        }
        for (int64_t c = 0; c < count; ++c) {
          const float x = row[column[c]];
          const uint16_t high = to_bf16(x);
          out[2 * c] = high;
          out[2 * c + part] = to_bf16(x - std::bit_cast<float>(static_cast<uint32_t>(high) << 16));
        }
      }
    }
}

// The nearest float whose last byte is zero; ties to even. What is not finite stays so.
uint32_t to_three_bytes(float x) {
  const auto bits = std::bit_cast<uint32_t>(x);
  if (!std::isfinite(x)) return std::isnan(x) ? bits | 0x400000 : bits;
  return bits + 0x7f + (bits >> 8 & 1);
}

void narrow(const float* from, uint8_t* to, const Packing& p) {
  const auto columns = static_cast<int64_t>(p.column.size());
  for (const int64_t b : p.batch)
    for (int64_t panel = 0; panel < p.panels(); ++panel) {
      const int64_t first = panel * p.width, count = std::min(p.width, columns - first);
      const int64_t* column = p.column.data() + first;
      for (const int64_t k : p.depth) {
        for (int64_t c = 0; c < count; ++c) {
          const uint32_t bits = to_three_bytes(from[b + k + column[c]]);
          for (int64_t byte = 0; byte < 3; ++byte) to[3 * c + byte] = static_cast<uint8_t>(bits >> (8 * byte + 8));
        }
        to += 3 * p.width;
      }
    }
}

}  // namespace

Tensor packed(const Tensor& source, const Packing& packing) {
  if (packing.split > 0) {
    Tensor out(DType::BF16, {packing.elements()});
    split(source.as<float>().data(), out.mutable_as<uint16_t>(), packing);
    return out;
  }
  if (packing.narrow) {
    Tensor out(DType::U8, {packing.elements()});
    narrow(source.as<float>().data(), out.mutable_as<uint8_t>(), packing);
    return out;
  }
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
