#include "cost/reach.h"

#include <gtest/gtest.h>

namespace isomer::cost {
namespace {

using compile::Space;

Touch arena(uint64_t offset, uint64_t bytes) { return {Space::Arena, 0, offset, bytes}; }
Touch weight(uint32_t index, uint64_t bytes) { return {Space::Weight, index, 0, bytes}; }

TEST(Reuse, CountsWhatOtherStepsTouchBetween) {
  const auto found = reuses({{arena(0, 100)}, {arena(1000, 40)}, {arena(0, 100)}});
  EXPECT_EQ(found[2][0].distance, 40U);
  EXPECT_EQ(found[2][0].step, 0U);
}

// What a run begins with was touched by the run before it.
TEST(Reuse, GoesRoundInACircle) {
  const auto found = reuses({{weight(0, 100)}, {weight(1, 30)}, {weight(2, 7)}});
  EXPECT_EQ(found[0][0].distance, 37U);
  EXPECT_EQ(found[1][0].distance, 107U);
  EXPECT_EQ(found[1][0].step, 1U);
  const auto alone = reuses({{weight(0, 100)}});
  EXPECT_EQ(alone[0][0].distance, 0U);
}

TEST(Reuse, CountsDistinctBytes) {
  const auto found = reuses({{arena(0, 100)}, {arena(500, 40)}, {arena(500, 40)}, {arena(500, 40)}, {arena(0, 100)}});
  EXPECT_EQ(found[4][0].distance, 40U);
  EXPECT_EQ(found[2][0].distance, 0U);
}

// What was touched with it counts half: before or behind it.
TEST(Reuse, CountsHalfOfWhatWasTouchedTogether) {
  const auto found = reuses({{arena(0, 100), weight(0, 60)}, {arena(0, 100), arena(500, 8)}});
  EXPECT_EQ(found[1][0].distance, 30U);
}

// Half of the range lies where another value was before, the other half where it was itself in the round before.
TEST(Reuse, RangesThatOverlapAreCut) {
  const auto found = reuses({{arena(0, 10000)}, {weight(0, 1000)}, {arena(5000, 10000)}});
  EXPECT_EQ(found[2][0].least, 1000U + 2500U);  // the weight, and half of what the first step touched with it
  EXPECT_EQ(found[2][0].distance, (3500U + 1000U + 10000U) / 2);  // the weight and all that the first step touched
}

// Rows that are written one after the other, of a value that was far away.
TEST(Reuse, WhatLiesBehindIsFetchedAhead) {
  const auto rows = reuses({{arena(0, 1000)}, {arena(1000, 1000)}, {weight(0, 100000)}});
  EXPECT_EQ(rows[0][0].distance, 101000U);
  EXPECT_EQ(rows[1][0].distance, 500U);
  const auto apart = reuses({{arena(0, 1000)}, {arena(1064, 1000)}, {weight(0, 100000)}});
  EXPECT_EQ(apart[1][0].distance, 101000U);
  const auto large = reuses({{arena(0, 1000)}, {arena(1000, 10000)}, {weight(0, 100000)}});
  EXPECT_EQ(large[1][0].distance, 101000U);
}

TEST(Reuse, PlacesOfOtherMemoryAreOthers) {
  const auto found = reuses({{weight(0, 100)}, {arena(0, 10)}, {weight(1, 5)}, {arena(0, 10)}});
  EXPECT_EQ(found[3][0].distance, 5U);
  EXPECT_EQ(found[1][0].distance, 105U - 5U);
}

TEST(Reuse, WhatIsReadAgainStaysInTheLastCache) {
  const std::vector<std::vector<Touch>> round = {
      {weight(0, 100)}, {weight(1, 80)}, {weight(2, 60)}, {weight(1, 80)}, {weight(2, 60)}};
  auto found = reuses(round);
  EXPECT_EQ(found[1][0].distance, 160U);
  keep_what_is_read_again(round, {1, 10, 50}, found);  // no cache holds it from one reading to the next
  EXPECT_EQ(found[1][0].distance, 160U);
  keep_what_is_read_again(round, {1, 10, 1000}, found);
  EXPECT_EQ(found[1][0].distance, 60U);
  EXPECT_EQ(found[2][0].distance, 80U);
  EXPECT_EQ(found[3][0].distance, 60U);
  EXPECT_EQ(found[0][0].distance, 140U);  // used once
}

TEST(Reach, ByTheSizesOfTheCaches) {
  const CacheSizes caches{uint64_t{64} << 10, uint64_t{2} << 20, uint64_t{100} << 20};
  const auto at = [&](uint64_t bytes) { return reach_of(bytes, bytes, caches); };
  EXPECT_EQ(text(at(0)), "n");
  EXPECT_EQ(text(at(63 << 10)), "n");
  EXPECT_EQ(at(64 << 10).kind, Reach::Kind::Second);
  EXPECT_EQ(at(64 << 10).bytes, uint64_t{256} << 10);
  EXPECT_EQ(text(Reach{Reach::Kind::Near, 0, 256}), "n/256");
  EXPECT_EQ(at(600 << 10).kind, Reach::Kind::Second);
  EXPECT_EQ(at(600 << 10).bytes, uint64_t{1} << 20);
  EXPECT_EQ(at(2 << 20).bytes, uint64_t{2} << 20);
  EXPECT_EQ(at(4 << 20).kind, Reach::Kind::Pool);
  EXPECT_EQ(at(28 << 20).bytes, uint64_t{32} << 20);
  EXPECT_EQ(at(90 << 20).bytes, kLargestPool);
  EXPECT_EQ(at(101 << 20).kind, Reach::Kind::Far);
  // The mean may be that of a near part and a far one.
  EXPECT_EQ(reach_of(50 << 20, 0, caches).kind, Reach::Kind::Pool);
}

}  // namespace
}  // namespace isomer::cost
