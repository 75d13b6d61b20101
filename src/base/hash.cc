#include "base/hash.h"

#include <fmt/format.h>

#include <cstring>

#ifdef ISOMER_HAVE_XXHASH
#define XXH_INLINE_ALL
#include <xxhash.h>
#endif

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

Hash128 hash_bytes(const void* data, size_t size, uint64_t seed) {
#ifdef ISOMER_HAVE_XXHASH
  const XXH128_hash_t h = XXH3_128bits_withSeed(data, size, seed);
  return {h.low64, h.high64};
#else
  // Without xxhash: two independent multiply-mix lanes over 8-byte words.
  const auto* p = static_cast<const unsigned char*>(data);
  Hash128 h{mix(seed + size), mix(seed ^ 0xA0761D6478BD642FULL)};
  for (size_t i = 0; i < size; i += 8) {
    uint64_t word = 0;
    std::memcpy(&word, p + i, size - i < 8 ? size - i : 8);
    h.low = (h.low ^ word) * 0x9FB21C651E98DF25ULL;
    h.low ^= h.low >> 29;
    h.high = (h.high + word) * 0xD6E8FEB86659FD93ULL;
    h.high ^= h.high >> 32;
  }
  return {mix(h.low), mix(h.high)};
#endif
}

Hasher& Hasher::add(uint64_t value) {
  state_.low = mix(state_.low ^ value);
  state_.high = mix(state_.high + value * 0x9E3779B97F4A7C15ULL + (state_.low << 1));
  return *this;
}

Hasher& Hasher::add(std::string_view text) { return add(text.size()).add(hash_bytes(text.data(), text.size())); }

}  // namespace isomer
