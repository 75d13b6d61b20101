#include "test/unit/passes/before_after.h"

namespace isomer::testing {
namespace {

TEST(InlineBranches, AKnownConditionTakesItsBranch) {
  for (const char* condition : {"true", "false"})
    expect_pass("inline_branches",
                R"((%x: f32[2], %z: f32[2]) {
      %y = if(const bool[] )" +
                    std::string(condition) + R"(, %x, %z){captures=2,
        then_branch=graph @t(%a: f32[2], %b: f32[2]) { return "r"=relu(%a) },
        else_branch=graph @e(%a: f32[2], %b: f32[2]) { return "r"=sub(%b, const f32[] 1) }} : f32[2]
      return "y"=%y
    })",
                condition == std::string("true") ? "(%x: f32[2], %z: f32[2]) { return \"y\"=relu(%x) }"
                                                 : "(%x: f32[2], %z: f32[2]) { return \"y\"=sub(%z, const f32[] 1) }");
}

TEST(InlineBranches, AConditionOnShapesAloneIsKnown) {
  const passes::Result r = expect_applies("fold_constants,inline_branches", R"((%x: f32[2,1]) {
    %c = equal(gather(shape(%x), const i64[] 1), const i64[] 1)
    %y = if(%c, %x){captures=1,
      then_branch=graph @t(%a: f32[2,1]) { return "r"=squeeze(%a, [1]) },
      else_branch=graph @e(%a: f32[2,1]) { return "r"=identity(%a) }} : f32[*]
    return "y"=%y
  })");
  EXPECT_EQ(count(r.graph, "if"), 0);
  EXPECT_EQ(r.graph.type(r.graph.outputs()[0].value).to_string(), "f32[2]");
}

TEST(InlineBranches, AnOpenConditionStays) {
  expect_untouched("inline_branches", R"((%c: bool[], %x: f32[2]) {
    %y = if(%c, %x){captures=1,
      then_branch=graph @t(%a: f32[2]) { return "r"=relu(%a) },
      else_branch=graph @e(%a: f32[2]) { return "r"=neg(%a) }} : f32[2]
    return "y"=%y
  })");
}

TEST(InlineBranches, PassesRunInBodiesToo) {
  expect_pass("simplify_inference", R"((%c: bool[], %x: f32[2]) {
    %y = if(%c, %x){captures=1,
      then_branch=graph @t(%a: f32[2]) { return "r"=relu(identity(%a)) },
      else_branch=graph @e(%a: f32[2]) { return "r"=neg(%a) }} : f32[2]
    return "y"=%y
  })",
              R"((%c: bool[], %x: f32[2]) {
    %y = if(%c, %x){captures=1,
      then_branch=graph @t(%a: f32[2]) { return "r"=relu(%a) },
      else_branch=graph @e(%a: f32[2]) { return "r"=neg(%a) }} : f32[2]
    return "y"=%y
  })");
}

}  // namespace
}  // namespace isomer::testing
