#include "compile/kernel_cache.h"

#include <gtest/gtest.h>

#include "compile/lower.h"
#include "ops/table.h"
#include "passes/manager.h"
#include "zoo/zoo.h"

namespace isomer::compile {
namespace {

void expect_same(const Lowered& a, const Lowered& b, const std::string& what) {
  EXPECT_EQ(a.signatures, b.signatures) << what;
  EXPECT_EQ(a.plan.arena_bytes, b.plan.arena_bytes) << what;
  ASSERT_EQ(a.plan.steps.size(), b.plan.steps.size()) << what;
  for (size_t i = 0; i < a.plan.steps.size(); ++i) {
    const Step &s = a.plan.steps[i], &t = b.plan.steps[i];
    EXPECT_EQ(s.function, t.function) << what << " step " << i;
    EXPECT_EQ(s.origin, t.origin) << what << " step " << i;
    EXPECT_EQ(s.arguments, t.arguments) << what << " step " << i;
    EXPECT_EQ(s.tasks, t.tasks) << what << " step " << i;
    EXPECT_EQ(s.flops, t.flops) << what << " step " << i;
    EXPECT_EQ(s.bytes, t.bytes) << what << " step " << i;
  }
}

// One cache for all networks: whatever it holds, a plan is the one that would have been made without it.
TEST(KernelCache, ChangesNoPlan) {
  KernelCache cache;
  for (const std::string name : {"squeezenet1_1", "resnet18", "mobilenet_v2", "bert_base", "squeezenet1_1"}) {
    zoo::Options small;
    const bool text = name == "bert_base";
    (text ? small.sequence : small.image) = text ? 8 : 64;
    if (text) small.layers = 2;
    const auto graph = zoo::build(name, ops::table(), small);
    ASSERT_TRUE(graph.ok()) << graph.error().to_string();
    const auto ready = passes::run_pipeline(*graph, ops::table(), "inference");
    ASSERT_TRUE(ready.ok()) << ready.error().to_string();
    LowerOptions options;
    options.target = *loop::parse_target("x86-64-v4");
    options.weights = false;
    options.in_place = false;  // as with a cache
    const auto plain = lower(*ready, ops::table(), options);
    options.cache = &cache;
    const auto first = lower(*ready, ops::table(), options), again = lower(*ready, ops::table(), options);
    ASSERT_TRUE(plain.ok() && first.ok() && again.ok()) << name;
    expect_same(*plain, *first, name);
    expect_same(*plain, *again, name);
  }
}

}  // namespace
}  // namespace isomer::compile
