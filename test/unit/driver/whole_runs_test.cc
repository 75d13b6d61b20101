#include "driver/whole_runs.h"

#include <gtest/gtest.h>

#include "driver/inputs.h"
#include "ops/table.h"
#include "zoo/zoo.h"

namespace isomer::driver {
namespace {

TEST(WholeRuns, TimesTheRunAndEachOfItsSteps) {
  const ir::Graph graph = *zoo::build("tiny", ops::table());
  for (const int threads : {1, 2}) {
    auto runs = WholeRuns::make(graph, *make_inputs(graph, {}), threads);
    ASSERT_TRUE(runs.ok()) << runs.error().to_string();
    EXPECT_EQ((*runs)->times({}, {})->seconds, 0);  // no turn yet
    ASSERT_TRUE((*runs)->turn().ok());
    const auto times = (*runs)->times({}, {});
    ASSERT_TRUE(times.ok());
    EXPECT_GT(times->fastest, 0);
    EXPECT_GE(times->median, times->fastest);
    EXPECT_EQ(times->seconds, times->median);  // no usual rate is known
    EXPECT_GT(times->steps.size(), 4U);
    EXPECT_GT(times->sum_of_steps(), 0);
  }
}

TEST(WholeRuns, TurnsLeaveMostOfTheTimeToOthers) {
  const ir::Graph graph = *zoo::build("tiny", ops::table());
  auto runs = WholeRuns::make(graph, *make_inputs(graph, {}), 1);
  ASSERT_TRUE(runs.ok());
  for (int i = 0; i < 100; ++i) (*runs)->turn_when_due();
  EXPECT_EQ((*runs)->turns(), 1U);
}

}  // namespace
}  // namespace isomer::driver
