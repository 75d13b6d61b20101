#include "base/quiet.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "base/task_pool.h"

namespace isomer {
namespace {

// Tasks that have tasks of their own, all of which want to be alone in between: nobody works meanwhile, and all come to their end.
TEST(Quiet, OneIsAloneWhileOthersWork) {
  Quiet quiet;
  TaskPool pool(4, &quiet);
  std::atomic<int> working = 0, alone = 0, wrong = 0, done = 0;
  const auto work = [&] {
    ++working;
    for (int i = 0; i < 200; ++i) wrong += alone > 0;
    --working;
  };
  const auto take_turn = [&] {
    const Quiet::Alone turn(quiet);
    wrong += ++alone != 1;
    wrong += working > 0;
    std::this_thread::yield();
    wrong += working > 0;
    --alone;
  };
  pool.run(12, [&](int i) {
    work();
    pool.run(i % 4, [&](int) {
      work();
      take_turn();
      work();
      ++done;
    });
    take_turn();
    work();
    ++done;
  });
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(done, 12 + 3 * (0 + 1 + 2 + 3));
}

// A thread of no pool has it as well, and one that waits for others lets them be alone.
TEST(Quiet, WhoWaitsDoesNotWork) {
  Quiet quiet;
  const Quiet::Work work(&quiet);
  const Quiet::Work nested(&quiet);
  bool had = false;
  const int works = quiet.stop();
  EXPECT_EQ(works, 2);
  std::thread other([&] {
    const Quiet::Alone turn(quiet);
    had = true;
  });
  other.join();
  quiet.go_on(works);
  EXPECT_TRUE(had);
  const Quiet::Alone own(quiet);
}

TEST(Quiet, WithoutOneThereIsNothingToWaitFor) { const Quiet::Work work(nullptr); }

}  // namespace
}  // namespace isomer
