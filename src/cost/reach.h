// What lies where when a step of a plan begins. A plan is run again and again: a round of steps that touch ranges of bytes. What a step
// touches was touched by an earlier step, of the same round or of the one before, and the distinct bytes that others touched since
// then tell which cache still holds it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compile/lower.h"

namespace isomer::cost {

// How far away an argument of a kernel is when the kernel begins, and in whose caches.
struct Reach {
  enum class Kind : uint8_t {
    Near,    // touched just before
    Second,  // so many `bytes` were touched since then, up to what the second caches hold
    Pool,    // so many `bytes`, more than that
    Far,     // more than the last cache holds
    Left,    // wherever the kernel's own last run left it: nobody knows of a plan
  };
  Kind kind = Kind::Left;
  uint64_t bytes = 0;
  // Of Near and Second: every thread touched its slice of each so many bytes (task_shares.h); or of the whole, or the first
  // thread everything.
  static constexpr uint64_t kWhole = UINT64_MAX, kFirst = 0;
  uint64_t period = kWhole;
  bool operator==(const Reach&) const = default;
};
std::string text(const Reach& reach);

// A range of bytes that a step reads or writes. Offsets count in their space and index.
struct Touch {
  compile::Space space = compile::Space::Arena;
  uint32_t index = 0;
  uint64_t offset = 0, bytes = 0;
};

constexpr uint64_t kLargestPool = uint64_t{64} << 20;

// Of a range that a step touches. The distance of a byte: distinct other bytes that were touched since its last touch; of what that
// step touched too, half.
struct Reuse {
  uint64_t distance = 0;  // the mean, where more than kLargestPool counts as that
  uint64_t least = 0;     // the least
  size_t step = 0;        // that touched most of it last; the asking one itself, or a later one: in the round before
};
// By step and touch. What lies right behind a touched range and is small is fetched with it, before anyone asks.
std::vector<std::vector<Reuse>> reuses(const std::vector<std::vector<Touch>>& round);

// In bytes; 0: not known.
struct CacheSizes {
  uint64_t first = 0, second = 0;  // those of all threads together
  uint64_t last = 0;
};
// Weights that are read several times in a round keep their place in the last cache, which gives up what was used once before what
// was used again: each reading finds them as near as the nearest does.
void keep_what_is_read_again(const std::vector<std::vector<Touch>>& round, const CacheSizes& caches,
                             std::vector<std::vector<Reuse>>& found);
// Bytes are powers of two, so that few states are told apart.
Reach reach_of(uint64_t distance, uint64_t least, const CacheSizes& caches);

// The state in which one step finds its arguments.
struct Context {
  std::vector<Reach> reaches;  // by argument
  std::vector<size_t> same;    // by argument: the first one that lies in the same place, mostly itself
  uint64_t round = 0;          // bytes that all steps touch, to a power of two, kLargestPool at most
  bool turned = false;         // its tasks run against the order in which its weights were read last
};
// By step of a plan of kernels. Small arguments are where the largest of their kind is, so that few states are told apart.
std::vector<Context> contexts(const compile::Lowered& lowered, int threads, const CacheSizes& caches);

// The standard state, of kernels of which no plan is known: values just written, with some traffic since then, and weights
// that come from behind the near caches, or from memory.
constexpr Reach kStandardWeights = {Reach::Kind::Pool, kLargestPool};
std::vector<Reach> standard_reaches(const loop::Function& function, const std::vector<bool>& weights,
                                    const Reach& of_weights);

}  // namespace isomer::cost
