#include "base/task_pool.h"

#include <gtest/gtest.h>

#include <atomic>

namespace isomer {
namespace {

TEST(TaskPool, RunsEveryTaskOnceInEverySet) {
  for (const int threads : {1, 2, 5}) {
    TaskPool pool(threads);
    for (int round = 0; round < 200; ++round) {
      std::vector<std::atomic<int>> hits(static_cast<size_t>(round % 13));
      pool.run(round % 13, [&](int i) { ++hits[static_cast<size_t>(i)]; });
      for (const auto& h : hits) EXPECT_EQ(h, 1);
    }
  }
}

TEST(TaskPool, TasksMayHaveSetsOfTheirOwn) {
  for (const int threads : {1, 2, 5}) {
    TaskPool pool(threads);
    for (int round = 0; round < 50; ++round) {
      std::vector<std::atomic<int>> hits(7 * 5 * 3);
      pool.run(7, [&](int a) {
        pool.run(5, [&](int b) { pool.run(3, [&](int c) { ++hits[static_cast<size_t>((a * 5 + b) * 3 + c)]; }); });
      });
      for (const auto& h : hits) EXPECT_EQ(h, 1);
    }
  }
}

// The last of a set goes on alone with a set of its own: the thread that waits for it must take a part of that. Each of the
// two inner tasks waits until the other one has begun, so that this ends only when two threads work on them.
TEST(TaskPool, WhoWaitsHelps) {
  TaskPool pool(2);
  std::atomic<int> begun = 0;
  pool.run(2, [&](int i) {
    if (i == 1)
      pool.run(2, [&](int) {
        ++begun;
        while (begun < 2) std::this_thread::yield();
      });
  });
  EXPECT_EQ(begun, 2);
}

TEST(TaskPool, EndsWithoutHavingRun) { TaskPool pool(4); }

}  // namespace
}  // namespace isomer
