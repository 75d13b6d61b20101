#include "test/unit/passes/before_after.h"

namespace isomer::testing {
namespace {

TEST(RecogniseRmsNorm, InEveryForm) {
  const std::string after =
      "(%x: f32[2,3,4]) { return \"y\"=rms_normalization(%x, const f32[4] [1,2,3,4]){epsilon=0.5} }";
  for (const char* body : {"mul(%w, div(%x, sqrt(add(reduce_mean(pow(%x, 2), [-1]), 0.5))))",
                           "mul(mul(%x, reciprocal(sqrt(add(reduce_mean(mul(%x, %x), [2]), 0.5)))), %w)",
                           "mul(mul(%x, div(1.0, sqrt(add(reduce_mean(mul(%x, %x), [2]), 0.5)))), %w)"})
    expect_pass("recognise_rms_norm",
                "(%x: f32[2,3,4]) { %w = const f32[4] [1,2,3,4] return \"y\"=" + std::string(body) + " }", after);
}

TEST(RecogniseRmsNorm, FalseTwins) {
  for (const char* body :
       {"div(%z, sqrt(add(reduce_mean(pow(%x, 2), [-1]), 0.5)))",
        "div(%x, sqrt(add(reduce_mean(pow(%x, 2), [1]), 0.5)))",
        "div(%x, sqrt(add(reduce_sum(pow(%x, 2), [-1]), 0.5)))", "div(%x, add(reduce_mean(pow(%x, 2), [-1]), 0.5))",
        "mul(%x, sqrt(add(reduce_mean(pow(%x, 2), [-1]), 0.5)))"})
    expect_untouched("recognise_rms_norm",
                     "(%x: f32[2,3,4], %z: f32[2,3,4]) { return \"y\"=" + std::string(body) + " }");
}

}  // namespace
}  // namespace isomer::testing
