// Content hashing: 128-bit, the same on every machine and in every run. Equality is always checked beside a hash.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace isomer {

struct Hash128 {
  uint64_t low = 0;
  uint64_t high = 0;
  bool operator==(const Hash128&) const = default;
  auto operator<=>(const Hash128&) const = default;
  std::string hex() const;
};

Hash128 hash_bytes(const void* data, size_t size, uint64_t seed = 0);

// Feeds values one by one; the order matters. Strings carry their length, so "ab","c" differs from "a","bc".
class Hasher {
 public:
  Hasher& add(uint64_t value);
  Hasher& add(std::string_view text);
  Hasher& add(const Hash128& hash) { return add(hash.low).add(hash.high); }
  Hash128 digest() const { return state_; }

 private:
  Hash128 state_{0x9E3779B97F4A7C15ULL, 0xC2B2AE3D27D4EB4FULL};
};

}  // namespace isomer

template <>
struct std::hash<isomer::Hash128> {
  size_t operator()(const isomer::Hash128& h) const noexcept { return h.low; }
};
