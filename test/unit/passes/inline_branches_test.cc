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

TEST(SelectBranches, AnOpenConditionSelectsBetweenBothBranches) {
  for (const char* type : {"bool[]", "bool[1]"}) {
    const passes::Result r = expect_applies("select_branches", "(%c: " + std::string(type) + R"(, %x: f32[2]) {
    %y, %z = if(%c, %x){captures=1,
      then_branch=graph @t(%a: f32[2]) { return "r"=relu(%a), "s"=reduce_sum(%a, [0]) },
      else_branch=graph @e(%a: f32[2]) { return "r"=neg(%a), "s"=reduce_max(%a, [0]) }} : f32[2], f32[1]
    return "y"=%y, "z"=%z
  })");
    EXPECT_EQ(count(r.graph, "if"), 0);
    EXPECT_EQ(count(r.graph, "where"), 2);
  }
}

// Bodies are written for any size; an exporter's question about sizes inside is answered by what is captured.
TEST(SelectBranches, CapturedSizesDecideInside) {
  const passes::Result r = expect_applies("select_branches", R"((%c: bool[], %x: f32[2,1]) {
    %y = if(%c, %x){captures=1,
      then_branch=graph @t(%a: f32[n,m]) {
        %d = equal(gather(shape(%a), const i64[] 1), const i64[] 1)
        %s = if(%d, %a){captures=1,
          then_branch=graph @tt(%b: f32[n,m]) { return "r"=squeeze(%b, [1]) },
          else_branch=graph @te(%b: f32[n,m]) { return "r"=identity(%b) }} : f32[*]
        return "r"=%s },
      else_branch=graph @e(%a: f32[n,m]) { return "r"=reduce_sum(%a, [1]){keepdims=0} }} : f32[*]
    return "y"=%y
  })");
  EXPECT_EQ(count(r.graph, "if"), 0);
  EXPECT_EQ(r.graph.type(r.graph.outputs()[0].value).to_string(), "f32[2]");
}

TEST(SelectBranches, OtherSizesAndWhatMayFailStay) {
  expect_untouched("select_branches", R"((%c: bool[], %x: f32[2]) {
    %y = if(%c, %x){captures=1,
      then_branch=graph @t(%a: f32[2]) { return "r"=concat(%a, %a){axis=0} },
      else_branch=graph @e(%a: f32[2]) { return "r"=neg(%a) }} : f32[*]
    return "y"=%y
  })");
  expect_untouched("select_branches", R"((%c: bool[], %x: f32[2], %i: i64[2]) {
    %y = if(%c, %x, %i){captures=2,
      then_branch=graph @t(%a: f32[2], %j: i64[2]) { return "r"=gather(%a, %j) },
      else_branch=graph @e(%a: f32[2], %j: i64[2]) { return "r"=neg(%a) }} : f32[2]
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
