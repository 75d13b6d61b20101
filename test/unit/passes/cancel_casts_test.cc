#include "test/unit/passes/before_after.h"

namespace isomer::testing {
namespace {

TEST(CancelCasts, CastsThatChangeNothingGo) {
  expect_pass("cancel_casts", "(%x: f32[2]) { return \"y\"=relu(cast(%x){to=f32}) }",
              "(%x: f32[2]) { return \"y\"=relu(%x) }");
  expect_pass("cancel_casts", "(%x: f16[2]) { return \"y\"=relu(cast(cast(%x){to=f32}){to=f16}) }",
              "(%x: f16[2]) { return \"y\"=relu(%x) }");
  expect_pass("cancel_casts", "(%x: f32[2], %z: f64[1]) { return \"y\"=cast_like(%x, %z) }",
              "(%x: f32[2], %z: f64[1]) { return \"y\"=cast(%x){to=f64} }");
}

TEST(CancelCasts, ADetourThatLosesNothingIsLeftOut) {
  expect_pass("cancel_casts", "(%x: i32[2]) { return \"y\"=cast(cast(%x){to=i64}){to=f32} }",
              "(%x: i32[2]) { return \"y\"=cast(%x){to=f32} }");
  expect_pass("cancel_casts", "(%x: bool[2]) { return \"y\"=cast(cast(%x){to=i64}){to=bool} }",
              "(%x: bool[2]) { return \"y\"=%x }");
}

TEST(CancelCasts, FalseTwins) {
  for (const char* lossy : {"(%x: f32[2]) { return \"y\"=cast(cast(%x){to=f16}){to=f32} }",
                            "(%x: f32[2]) { return \"y\"=cast(cast(%x){to=i32}){to=f32} }",
                            "(%x: i64[2]) { return \"y\"=cast(cast(%x){to=f32}){to=i64} }",
                            "(%x: bf16[2]) { return \"y\"=cast(cast(%x){to=f16}){to=bf16} }",
                            "(%x: i8[2]) { return \"y\"=cast(cast(%x){to=u16}){to=i32} }",
                            // Through a float the number saturates, directly it wraps.
                            "(%x: i32[2]) { return \"y\"=cast(cast(%x){to=f64}){to=u8} }"})
    expect_untouched("cancel_casts", lossy);
}

}  // namespace
}  // namespace isomer::testing
