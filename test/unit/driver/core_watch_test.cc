#include "driver/core_watch.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "codegen/codegen.h"
#include "driver/inputs.h"
#include "ops/table.h"
#include "passes/manager.h"
#include "zoo/zoo.h"

namespace isomer::driver {
namespace {

size_t looks_in(const compile::Plan& plan) {
  return static_cast<size_t>(std::count_if(plan.steps.begin(), plan.steps.end(),
                                           [](const compile::Step& s) { return s.function == compile::kWatchStep; }));
}

// Looks stand between all steps when they are wanted all the time; what the program computes stays the same.
TEST(CoreWatch, LooksStandBetweenTheSteps) {
  const ir::Graph graph = *passes::run_pipeline(*zoo::build("tiny", ops::table()), ops::table(), "inference");
  const std::vector<Tensor> inputs = *make_inputs(graph, {});
  for (const int threads : {1, 2}) {
    compile::ExecutableOptions o;
    o.lower.target = *codegen::host_target();
    CoreWatch watch(o.lower.target, threads);
    const auto plain = *compile::Executable::build(graph, ops::table(), o);
    o.watch = watch.watch();
    EXPECT_EQ(looks_in((*compile::Executable::build(graph, ops::table(), o))->plan()), 0U);  // a run of microseconds
    o.watch.seconds = 0;
    const auto watched = *compile::Executable::build(graph, ops::table(), o);
    const size_t steps = plain->plan().steps.size();
    ASSERT_EQ(watched->plan().steps.size(), 2 * steps - 1);
    EXPECT_EQ(looks_in(watched->plan()), steps - 1);

    compile::Runner first = *compile::Runner::make(plain, threads), second = *compile::Runner::make(watched, threads);
    watch.look();
    watch.start();
    const std::vector<Tensor> found = *second.run(inputs);
    const cost::WatchedRun run = watch.stop();
    EXPECT_EQ(run.size(), steps);
    EXPECT_EQ(watch.rates().size(), steps + 1);
    for (const cost::WatchedStretch& s : run) EXPECT_GT(s.rates.vectors, 0);
    const std::vector<Tensor> expected = *first.run(inputs);
    for (size_t i = 0; i < expected.size(); ++i) EXPECT_TRUE(found[i] == expected[i]);
  }
}

}  // namespace
}  // namespace isomer::driver
