#include "test/unit/passes/before_after.h"

namespace isomer::testing {
namespace {

TEST(SimplifyArithmetic, NeutralElementsGo) {
  for (const char* body : {"add(%x, 0)", "add(0, %x)", "sub(%x, 0)", "mul(1, %x)", "div(%x, 1)", "pow(%x, 1)",
                           "add(%x, const f32[3] splat(0))"})
    expect_pass("simplify_arithmetic", "(%x: f32[2,3]) { return \"y\"=relu(" + std::string(body) + ") }",
                "(%x: f32[2,3]) { return \"y\"=relu(%x) }");
  // The constant makes the value larger.
  expect_untouched("simplify_arithmetic", "(%x: f32[1,3]) { return \"y\"=relu(add(%x, const f32[2,1] [0,0])) }");
  expect_untouched("simplify_arithmetic", "(%x: f32[3]) { return \"y\"=sub(const f32[] 0, %x) }");
}

TEST(SimplifyArithmetic, NeighbouringConstantsMerge) {
  expect_pass("simplify_arithmetic", "(%x: f32[2]) { return \"y\"=mul(mul(2, %x), const f32[2] [3,4]) }",
              "(%x: f32[2]) { return \"y\"=mul(%x, const f32[2] [6,8]) }");
  expect_pass("simplify_arithmetic", "(%x: f32[2]) { return \"y\"=sub(add(%x, 5), 2) }",
              "(%x: f32[2]) { return \"y\"=add(%x, 3) }");
  expect_pass("simplify_arithmetic", "(%x: f32[2]) { return \"y\"=add(sub(%x, 5), 2) }",
              "(%x: f32[2]) { return \"y\"=sub(%x, 3) }");
  expect_pass("simplify_arithmetic", "(%x: f32[2]) { return \"y\"=mul(div(%x, 4), 8) }",
              "(%x: f32[2]) { return \"y\"=mul(%x, 2) }");
  // Two vectors would become a matrix; another reader needs the sum; a quotient of a constant is none by one.
  expect_untouched("simplify_arithmetic",
                   "(%x: f32[2,2]) { return \"y\"=add(add(%x, const f32[2] [1,2]), const f32[2,1] [3,4]) }");
  expect_untouched("simplify_arithmetic", "(%x: f32[2]) { %h = add(%x, 5) return \"y\"=add(%h, 2), \"h\"=%h }");
  expect_untouched("simplify_arithmetic", "(%x: f32[2]) { return \"y\"=mul(div(const f32[] 4, %x), 8) }");
  expect_untouched("simplify_arithmetic", "(%x: f32[2]) { return \"y\"=mul(mul(%x, 1e30), 1e30) }");
}

TEST(SimplifyArithmetic, QuotientsByConstantsAreProducts) {
  expect_pass("simplify_arithmetic", "(%x: f32[2]) { return \"y\"=div(%x, 8) }",
              "(%x: f32[2]) { return \"y\"=mul(%x, 0.125) }");
  expect_untouched("simplify_arithmetic", "(%x: i32[2]) { return \"y\"=div(%x, const i32[] 8) }");
  expect_untouched("simplify_arithmetic", "(%x: f32[2]) { return \"y\"=div(%x, 0) }");
}

TEST(SimplifyArithmetic, SmallPowersAreProductsAndRoots) {
  expect_pass("simplify_arithmetic", "(%x: f32[2]) { return \"y\"=pow(%x, 2) }",
              "(%x: f32[2]) { return \"y\"=mul(%x, %x) }");
  expect_pass("simplify_arithmetic", "(%x: f32[2]) { %p = exp(%x) return \"y\"=pow(%p, const f32[1] [0.5]) }",
              "(%x: f32[2]) { %p = exp(%x) return \"y\"=sqrt(%p) }");
  expect_untouched("simplify_arithmetic", "(%x: f32[2]) { return \"y\"=pow(exp(%x), 2.5) }");
  expect_untouched("simplify_arithmetic", "(%x: f32[2]) { return \"y\"=pow(%x, const f32[2] [2,3]) }");
  expect_untouched("simplify_arithmetic", "(%x: f32[2]) { return \"y\"=pow(%x, const f32[1,1] [2]) }");
}

}  // namespace
}  // namespace isomer::testing
