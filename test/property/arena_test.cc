// The memory planner on random intervals: nothing overlaps, few buffers are placed as well as any order of placing could,
// and lifetimes like those of networks come within 5% of the lower bound. ISOMER_SEED and ISOMER_CASES override.
#include "compile/arena.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <numeric>

#include "base/random.h"
#include "runtime/abi.h"
#include "test/setting.h"

namespace isomer::compile {
namespace {

using Intervals = std::vector<Interval>;

size_t root_of(const Intervals& intervals, size_t i) {
  while (intervals[i].inside >= 0) i = static_cast<size_t>(intervals[i].inside);
  return i;
}

// Empty when the layout is right, else what is wrong. Knows nothing of how the planner works.
std::string flaw(const Intervals& intervals, const Arena& arena) {
  int steps = 0;
  for (const Interval& t : intervals) steps = std::max(steps, t.last + 1);
  for (size_t i = 0; i < intervals.size(); ++i) {
    const Interval& a = intervals[i];
    if (a.inside < 0 && arena.offsets[i] % ISO_ALIGNMENT) return "offset " + std::to_string(i) + " is not aligned";
    if (a.inside >= 0 && arena.offsets[i] != arena.offsets[static_cast<size_t>(a.inside)] + a.at) {
      return "piece " + std::to_string(i) + " is not where it belongs";
    }
    if (arena.offsets[i] + a.bytes > arena.bytes) return "interval " + std::to_string(i) + " ends behind the arena";
    for (size_t k = 0; k < i; ++k) {
      const Interval& b = intervals[k];
      if (root_of(intervals, i) == root_of(intervals, k) || a.first > b.last || b.first > a.last) continue;
      if (arena.offsets[i] < arena.offsets[k] + b.bytes && arena.offsets[k] < arena.offsets[i] + a.bytes) {
        return "intervals " + std::to_string(k) + " and " + std::to_string(i) + " overlap";
      }
    }
  }
  return arena.bytes < arena.lower_bound ? "the arena is below its lower bound" : "";
}

// Every order of placing each item at its lowest free place: the best of all is the optimum.
uint64_t brute_force(const Intervals& intervals) {
  std::vector<size_t> order(intervals.size());
  std::iota(order.begin(), order.end(), size_t{0});
  uint64_t best = UINT64_MAX;
  do {
    std::vector<uint64_t> offsets(intervals.size());
    uint64_t height = 0;
    for (size_t n = 0; n < order.size(); ++n) {
      const Interval& t = intervals[order[n]];
      uint64_t at = 0;
      for (bool moved = true; moved;) {
        moved = false;
        for (size_t m = 0; m < n; ++m) {
          const Interval& o = intervals[order[m]];
          const bool meet = t.first <= o.last && o.first <= t.last;
          if (meet && at < offsets[order[m]] + o.bytes && offsets[order[m]] < at + t.bytes) {
            at = offsets[order[m]] + o.bytes;
            moved = true;
          }
        }
      }
      offsets[order[n]] = at;
      height = std::max(height, at + t.bytes);
    }
    best = std::min(best, height);
  } while (std::next_permutation(order.begin(), order.end()));
  return best;
}

// Lifetimes as networks have them: each step gives a buffer to the next ones, some skip far ahead, sizes fall in stages.
Intervals network(Random& r) {
  Intervals intervals;
  const int steps = static_cast<int>(r.between(5, 300));
  uint64_t size = 64 * static_cast<uint64_t>(r.between(100, 4000));
  for (int s = 0; s < steps; ++s) {
    if (r.below(12) == 0) size = std::max<uint64_t>(64, size / 2);
    const uint64_t factor = r.below(4) == 0 ? 4 : r.below(5) == 0 ? 6 : 1;
    int last = s + 1;
    if (r.below(4) == 0) last = s + static_cast<int>(r.between(2, 5));
    if (r.below(30) == 0) last = s + static_cast<int>(r.between(5, steps));
    intervals.push_back({size * factor + r.below(200), s, std::min(last, steps)});
    if (s > 0 && r.below(10) == 0) intervals.back().inside = s - 1;  // in place
    if (r.below(20) == 0) intervals.back().bytes = 0;
  }
  return intervals;
}

TEST(ArenaProperty, FewBuffersAreOptimal) {
  const uint64_t seed = testing::setting("ISOMER_SEED", 1), cases = testing::setting("ISOMER_CASES", 300);
  for (uint64_t n = 0; n < cases; ++n) {
    Random r(seed * 1000003 + n);
    Intervals intervals;
    const int64_t count = r.between(1, 7);
    for (int64_t i = 0; i < count; ++i) {
      const int first = static_cast<int>(r.between(0, 6));
      intervals.push_back(
          {64 * static_cast<uint64_t>(r.between(1, 9)), first, first + static_cast<int>(r.between(0, 3))});
    }
    const Arena arena = plan_arena(intervals);
    ASSERT_EQ(flaw(intervals, arena), "") << "seed " << seed << ", case " << n;
    ASSERT_EQ(arena.bytes, brute_force(intervals)) << "seed " << seed << ", case " << n;
  }
}

TEST(ArenaProperty, NetworksComeNearTheLowerBound) {
  const uint64_t seed = testing::setting("ISOMER_SEED", 1), cases = testing::setting("ISOMER_CASES", 200);
  double worst = 1;
  for (uint64_t n = 0; n < cases; ++n) {
    Random r(seed * 1000003 + n);
    const Intervals intervals = network(r);
    const Arena arena = plan_arena(intervals);
    ASSERT_EQ(flaw(intervals, arena), "") << "seed " << seed << ", case " << n;
    if (arena.lower_bound == 0) continue;
    const double ratio = static_cast<double>(arena.bytes) / static_cast<double>(arena.lower_bound);
    worst = std::max(worst, ratio);
    ASSERT_LE(ratio, 1.05) << "seed " << seed << ", case " << n;
  }
  RecordProperty("worst_ratio", std::to_string(worst));
  std::printf("worst ratio to the lower bound: %.4f\n", worst);
}

TEST(ArenaProperty, HardCasesAreRightAndTheSameTwice) {
  const uint64_t seed = testing::setting("ISOMER_SEED", 1);
  for (uint64_t n = 0; n < 4; ++n) {
    Random r(seed * 7919 + n);
    Intervals intervals;
    for (int i = 0; i < 200; ++i) {
      const int first = static_cast<int>(r.between(0, 60));
      intervals.push_back(
          {static_cast<uint64_t>(r.between(0, 5000)), first, first + static_cast<int>(r.between(0, 20))});
      if (i > 2 && r.below(8) == 0) {
        intervals.back().inside = static_cast<int>(r.below(static_cast<uint64_t>(i)));
        intervals.back().at = 64 * r.below(10);
      }
    }
    const Arena arena = plan_arena(intervals);
    ASSERT_EQ(flaw(intervals, arena), "") << "seed " << seed << ", case " << n;
    ASSERT_EQ(plan_arena(intervals).offsets, arena.offsets);
  }
}

TEST(Arena, PlacesPiecesInsideTheirWhole) {
  // Two producers write the halves of a concatenation; a third buffer lives beside them.
  const Intervals intervals = {{256, 2, 3}, {128, 0, 2, 0, 0}, {128, 1, 2, 0, 128}, {64, 0, 3}, {64, 4, 5}, {0, 0, 9}};
  const Arena arena = plan_arena(intervals);
  EXPECT_EQ(flaw(intervals, arena), "");
  EXPECT_EQ(arena.bytes, 320u);
  EXPECT_EQ(arena.lower_bound, 320u);
  EXPECT_EQ(plan_arena({}).bytes, 0u);
}

}  // namespace
}  // namespace isomer::compile
