#include "base/hash.h"

#include <fmt/format.h>

#include <bit>
#include <cstring>

namespace isomer {
namespace {

uint64_t mix(uint64_t x) {  // splitmix64's finaliser
  x ^= x >> 30;
  x *= 0xBF58476D1CE4E5B9ULL;
  x ^= x >> 27;
  x *= 0x94D049BB133111EBULL;
  return x ^ (x >> 31);
}

}  // namespace

std::string Hash128::hex() const { return fmt::format("{:016x}{:016x}", high, low); }

// Four independent lanes of 8-byte words, so that the multiplications overlap; the last block is filled with zeros, which
// the size in the seed tells apart from zeros in the data.
Hash128 hash_bytes(const void* data, size_t size, uint64_t seed) {
  constexpr uint64_t kFirst = 0x9FB21C651E98DF25ULL, kSecond = 0xD6E8FEB86659FD93ULL;
  const auto* p = static_cast<const unsigned char*>(data);
  uint64_t lanes[4];
  for (uint64_t k = 0; k < 4; ++k) lanes[k] = mix(seed + size + k * kSecond);
  const auto absorb = [&](const unsigned char* block) {
    for (int k = 0; k < 4; ++k) {
      uint64_t word;
      std::memcpy(&word, block + 8 * k, 8);
      lanes[k] = std::rotl((lanes[k] ^ word) * kFirst, 29) * kSecond;
    }
  };
  size_t i = 0;
  for (; i + 32 <= size; i += 32) absorb(p + i);
  if (i < size) {
    unsigned char last[32] = {};
    std::memcpy(last, p + i, size - i);
    absorb(last);
  }
  const uint64_t low = mix(mix(mix(lanes[0]) + lanes[1]) + mix(lanes[2] ^ kFirst) + lanes[3]);
  const uint64_t high = mix(mix(mix(lanes[3] ^ kSecond) + lanes[2]) + mix(lanes[1]) * kFirst + lanes[0]);
  return {low, high};
}

Hasher& Hasher::add(uint64_t value) {
  state_.low = mix(state_.low ^ value);
  state_.high = mix(state_.high + value * 0x9E3779B97F4A7C15ULL + (state_.low << 1));
  return *this;
}

Hasher& Hasher::add(std::string_view text) { return add(text.size()).add(hash_bytes(text.data(), text.size())); }

}  // namespace isomer
