#include "test/unit/passes/before_after.h"

namespace isomer::testing {
namespace {

TEST(RecogniseSilu, InBothOrdersAndWithASlope) {
  expect_pass("recognise_silu", "(%x: f32[2,3]) { return \"y\"=mul(%x, sigmoid(%x)) }",
              "(%x: f32[2,3]) { return \"y\"=swish(%x) }");
  expect_pass("recognise_silu", "(%x: f32[2,3]) { return \"y\"=mul(sigmoid(mul(%x, 1.5)), %x) }",
              "(%x: f32[2,3]) { return \"y\"=swish(%x){alpha=1.5} }");
}

TEST(RecogniseSilu, FalseTwins) {
  for (const char* body :
       {"mul(%z, sigmoid(%x))", "mul(%x, sigmoid(add(%x, 1)))", "mul(%x, tanh(%x))", "mul(%x, mul(sigmoid(%x), 2))"})
    expect_untouched("recognise_silu", "(%x: f32[2,3], %z: f32[2,3]) { return \"y\"=" + std::string(body) + " }");
  // A gate per channel, as squeeze and excitation has it.
  expect_untouched("recognise_silu", "(%x: f32[1,2,3,3]) { return \"y\"=mul(%x, sigmoid(global_average_pool(%x))) }");
}

}  // namespace
}  // namespace isomer::testing
