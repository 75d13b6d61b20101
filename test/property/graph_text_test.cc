// print and parse are exact inverses on random graphs.
//   ISOMER_SEED=n    starts from another seed; a failure prints the one to give
//   ISOMER_CASES=n   another number of cases
#include <gtest/gtest.h>

#include <cstdlib>

#include "ir/text.h"
#include "ir/verify.h"
#include "test/random_graph.h"
#include "test/setting.h"

namespace isomer {
namespace {

// Why the graph does not survive its text, or "".
std::string fault(const ir::Graph& g) {
  ir::ConstantPool pool;
  const std::string text = ir::print(g, &pool);
  const auto back = ir::parse(text, ops::table(), &pool);
  if (!back.ok()) return "does not parse: " + back.error().to_string() + "\n" + text;
  if (!ir::identical(g, *back)) return "comes back different:\n" + text + "\n" + ir::print(*back, &pool);
  if (const auto v = ir::verify_structure(*back); !v.ok()) return v.error().to_string() + "\n" + text;
  return {};
}

TEST(GraphText, SurvivesRandomGraphs) {
  const uint64_t seed = testing::setting("ISOMER_SEED", 20240511), cases = testing::setting("ISOMER_CASES", 100000);
  constexpr size_t kSteps = 6;
  const testing::RandomGraph random;
  std::printf("seed %llu, %llu cases\n", static_cast<unsigned long long>(seed), static_cast<unsigned long long>(cases));
  for (uint64_t i = 0; i < cases; ++i) {
    if (fault(random.make(seed + i, kSteps)).empty()) continue;
    for (size_t steps = 0; steps <= kSteps; ++steps)
      if (const std::string why = fault(random.make(seed + i, steps)); !why.empty())
        FAIL() << "ISOMER_SEED=" << seed + i << " ISOMER_CASES=1, with " << steps << " steps: " << why;
  }
}

TEST(GraphText, RandomGraphsPassTheVerifier) {
  const testing::RandomGraph random;
  for (uint64_t seed = 1; seed <= 2000; ++seed) {
    const ir::Graph g = random.make(seed, 6);
    const auto v = ir::verify(g, ops::table());
    ASSERT_TRUE(v.ok()) << "seed " << seed << ": " << v.error().to_string() << "\n" << ir::print(g);
  }
}

}  // namespace
}  // namespace isomer
