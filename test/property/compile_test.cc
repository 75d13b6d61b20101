// Compiled code against the interpreter on random models: passes on and off, naive loops, memory poisoned in half of the runs.
//   ISOMER_SEED=n    starts from another seed; a failure prints the one to give
//   ISOMER_CASES=n   another number of models
// A failing model is made smaller and written as text, with its inputs, into the folder of the test's temporary files.
#include "test/compiled_models.h"

namespace isomer::testing {
namespace {

TEST(Compile, AgreesWithTheInterpreterOnRandomModels) {
  constexpr size_t kMostSteps = 9;
  const RandomModels models;
  std::atomic<int> ran = 0, skipped = 0;
  try_seeds(7, 2000, [&](uint64_t s) -> std::string {
    const auto m = models.make(s, 1 + s % kMostSteps);
    const auto expected = m ? reference(*m) : Expected<Reference>(Diagnostic("E-test", "none"));
    if (!expected.ok()) return ++skipped, "";
    ++ran;
    for (const Way& way : {kOptimised, kWithoutPasses, kNaive}) {
      const bool poison = (s + (way.optimise ? 1 : 0)) % 2 == 0;
      if (way.naive && s % 4 != 0) continue;
      const std::string why = fault(*m, *expected, way, poison);
      if (!why.empty()) return story(*m, s, way, poison, why);
    }
    return "";
  });
  std::printf("%d models ran, %d could not be made\n", ran.load(), skipped.load());
  EXPECT_LT(skipped.load(), ran.load() / 4);
}

}  // namespace
}  // namespace isomer::testing
