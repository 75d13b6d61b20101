#include "base/thread_pool.h"

#include <gtest/gtest.h>

#include <atomic>

namespace isomer {
namespace {

TEST(ThreadPool, RunsEveryTaskOnceInEveryRound) {
  for (int threads : {1, 2, 5}) {
    ThreadPool pool(threads);
    EXPECT_EQ(pool.size(), threads);
    for (int round = 0; round < 200; ++round) {
      std::vector<std::atomic<int>> hits(static_cast<size_t>(round % 13));
      pool.run(round % 13, [&](int i) { ++hits[static_cast<size_t>(i)]; });
      for (const auto& h : hits) EXPECT_EQ(h, 1);
    }
  }
}

TEST(ThreadPool, EndsWithoutHavingRun) { ThreadPool pool(4); }

}  // namespace
}  // namespace isomer
