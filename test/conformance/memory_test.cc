// The memory of every network of the zoo at its full size: how near the planned arena comes to the lower bound, the most
// bytes that are alive at once. Prints the table.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "compile/lower.h"
#include "ops/table.h"
#include "passes/manager.h"
#include "zoo/zoo.h"

namespace isomer {
namespace {

TEST(Memory, EveryNetworkIsWithinFivePercentOfTheLowerBound) {
  fmt::print("{:<18}{:>7}{:>14}{:>14}{:>9}\n", "network", "steps", "arena", "lower bound", "ratio");
  for (const zoo::Network& n : zoo::networks()) {
    const auto graph = zoo::build(n.name, ops::table());
    ASSERT_TRUE(graph.ok()) << graph.error().to_string();
    const auto prepared = passes::run_pipeline(*graph, ops::table(), "inference");
    ASSERT_TRUE(prepared.ok()) << prepared.error().to_string();
    compile::LowerOptions options;
    options.target = *loop::parse_target("x86-64-v4");
    options.weights = false;
    const auto lowered = compile::lower(*prepared, ops::table(), options);
    ASSERT_TRUE(lowered.ok()) << n.name << ": " << lowered.error().to_string();
    const double ratio =
        static_cast<double>(lowered->plan.arena_bytes) / static_cast<double>(lowered->least_arena_bytes);
    fmt::print("{:<18}{:>7}{:>14}{:>14}{:>9.4f}\n", n.name, lowered->plan.steps.size(), lowered->plan.arena_bytes,
               lowered->least_arena_bytes, ratio);
    EXPECT_LE(ratio, 1.05) << n.name;
  }
}

}  // namespace
}  // namespace isomer
