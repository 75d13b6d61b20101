// The places of buffers in one arena: two buffers that are needed in the same step never overlap. Every offset is a multiple
// of ISO_ALIGNMENT. What may be read behind a buffer may belong to another one; only the arena's end needs slack, which a
// context adds.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace isomer::compile {

// To a multiple of ISO_ALIGNMENT.
uint64_t rounded_up(uint64_t bytes);

struct Interval {
  uint64_t bytes = 0;
  int first = 0, last = 0;  // the steps that need it, both included
  // A piece of another interval, `at` bytes from its start: computed in place, or where a concatenation wants it. The
  // other one then lives from the first to the last step of both. Chains are fine, circles are not.
  int inside = -1;
  uint64_t at = 0;
};

struct Arena {
  std::vector<uint64_t> offsets;  // of each interval
  uint64_t bytes = 0;
  uint64_t lower_bound = 0;  // the most bytes needed in any one step, each buffer rounded up to its alignment
};

// Greedy by size and by other orders, then a climb and an exact search of bounded effort while above the lower bound. The
// same intervals always get the same places.
Arena plan_arena(std::span<const Interval> intervals);

}  // namespace isomer::compile
