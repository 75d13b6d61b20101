#include "test/unit/passes/before_after.h"

namespace isomer::testing {
namespace {

TEST(RecogniseHardSwish, InEveryOrder) {
  for (const char* body :
       {"div(mul(%x, clip(add(%x, 3), 0, 6)), 6)", "mul(%x, div(clip(add(%x, 3), 0, 6), 6))",
        "mul(%x, mul(min(relu(add(3, %x)), 6), 0.16666667))", "mul(hard_sigmoid(%x){alpha=0.16666667}, %x)"})
    expect_pass("recognise_hard_swish", "(%x: f32[2,3]) { return \"y\"=" + std::string(body) + " }",
                "(%x: f32[2,3]) { return \"y\"=hard_swish(%x) }");
}

TEST(RecogniseHardSwish, TheGateAloneIsAHardSigmoid) {
  const passes::Result r = expect_applies(
      "recognise_hard_swish", "(%x: f32[2,3], %z: f32[2,3]) { return \"y\"=mul(%z, div(clip(add(%x, 3), 0, 6), 6)) }");
  EXPECT_EQ(count(r.graph, "hard_sigmoid"), 1);
  EXPECT_EQ(count(r.graph, "clip"), 0);
}

TEST(RecogniseHardSwish, FalseTwins) {
  for (const char* body : {"div(mul(%x, clip(add(%x, 2), 0, 6)), 6)", "div(mul(%x, clip(add(%x, 3), 0, 5)), 6)",
                           "div(mul(%x, clip(add(%x, 3), 1, 6)), 6)", "div(mul(%x, clip(add(%x, 3), 0, 6)), 5)",
                           "mul(hard_sigmoid(%x), %x)"})
    expect_untouched("recognise_hard_swish", "(%x: f32[2,3]) { return \"y\"=" + std::string(body) + " }");
}

}  // namespace
}  // namespace isomer::testing
