#include "cost/label_kin.h"

#include <gtest/gtest.h>

#include <set>

#include "codegen/codegen.h"
#include "ir/text.h"
#include "ops/table.h"
#include "passes/manager.h"

namespace isomer::cost {
namespace {

TEST(LabelKin, TheLongestOfTheLongestComesFirst) {
  const auto g = ir::parse(R"(graph @g(%x: f32[8,64], %y: f32[8,64]) {
    %a = relu(matmul(%x, expand(const f32[] 0.5, [64,64])))
    %b = add(matmul(%a, expand(const f32[] 0.25, [64,64])), %y)
    %c = relu(matmul(%b, expand(const f32[] 0.125, [64,64])))
    return softmax(matmul(%c, expand(const f32[] 0.5, [64,32])))
  })",
                           ops::table());
  ASSERT_TRUE(g.ok()) << g.error().to_string();
  const auto ready = passes::run_pipeline(*g, ops::table(), "inference");
  ASSERT_TRUE(ready.ok());
  compile::KernelCache cache;
  compile::LowerOptions options;
  options.target = *codegen::host_target();
  options.weights = false;
  options.cache = &cache;
  const auto space = compile::LabelSpace::make(*ready, ops::table(), options);
  ASSERT_TRUE(space.ok());
  std::vector<size_t> all;
  for (size_t f = 0; f < space->factors().size(); ++f) all.push_back(f);
  const auto seconds = [](size_t f) { return 1.0 + static_cast<double>(f % 3); };
  const std::vector<Kin> kin = kin_of(*space, all, seconds);
  std::set<size_t> seen;
  size_t most = 0;
  double before = 1e9;
  for (const Kin& k : kin) {
    ASSERT_FALSE(k.factors.empty());
    double sum = 0;
    for (const size_t f : k.factors) {
      EXPECT_TRUE(seen.insert(f).second);
      EXPECT_LE(seconds(f), seconds(k.leader()));
      sum += seconds(f);
    }
    EXPECT_EQ(k.seconds, sum);
    EXPECT_LE(k.seconds, before);
    before = k.seconds;
    EXPECT_TRUE(!k.reduction.empty() || k.factors.size() == 1);
    most = std::max(most, k.factors.size());
  }
  EXPECT_EQ(seen.size(), all.size());
  EXPECT_EQ(most, 3U);  // a, b and c
}

}  // namespace
}  // namespace isomer::cost
