#include "test/unit/passes/before_after.h"

namespace isomer::testing {
namespace {

const std::string kGelu = "(%x: f32[2,3]) { return \"y\"=gelu(%x) }";
const std::string kGeluTanh = "(%x: f32[2,3]) { return \"y\"=gelu(%x){approximate=\"tanh\"} }";

TEST(RecogniseGelu, ByErfInEveryOrder) {
  for (const char* body :
       {"mul(mul(%x, add(erf(div(%x, 1.4142135)), 1)), 0.5)", "mul(mul(0.5, %x), add(1, erf(mul(%x, 0.70710678))))",
        "mul(%x, mul(add(1, erf(mul(0.70710678, %x))), 0.5))", "mul(%x, add(0.5, mul(erf(div(%x, 1.4142135)), 0.5)))",
        "div(mul(%x, add(erf(div(%x, 1.4142135)), 1)), 2)"})
    expect_pass("recognise_gelu", "(%x: f32[2,3]) { return \"y\"=" + std::string(body) + " }", kGelu);
}

TEST(RecogniseGelu, ByTanhInEveryOrder) {
  for (const char* inner : {"mul(0.7978846, add(%x, mul(0.044715, pow(%x, 3))))",
                            "mul(add(%x, mul(mul(mul(%x, %x), %x), 0.044715)), 0.7978846)",
                            "mul(mul(%x, 0.7978846), add(1, mul(mul(0.044715, %x), %x)))"})
    expect_pass("recognise_gelu",
                "(%x: f32[2,3]) { return \"y\"=mul(mul(%x, 0.5), add(tanh(" + std::string(inner) + "), 1)) }",
                kGeluTanh);
}

TEST(RecogniseGelu, OriginsAreUnited) {
  const ir::Graph g = graph_of(R"((%x: f32[2]) {
    %a = div(%x, const f32[] 1.4142135) from("Div")
    %b = erf(%a) from("Erf")
    %c = add(%b, const f32[] 1) from("Add")
    %d = mul(%x, %c) from("Mul")
    %e = mul(%d, const f32[] 0.5) @"Mul_1" from("Mul_1")
    return "y"=%e
  })");
  const ir::Graph out = run_passes("recognise_gelu", g).graph;
  ASSERT_EQ(out.nodes().size(), 2u) << ir::print(out);
  EXPECT_EQ(out.node(1).origin, (std::vector<std::string>{"Div", "Erf", "Add", "Mul", "Mul_1"}));
  EXPECT_EQ(out.node(1).label, "Mul_1");
  EXPECT_EQ(out.node(1).names[0], "e");
}

TEST(RecogniseGelu, FalseTwins) {
  for (const char* body : {"mul(mul(%x, add(erf(div(%x, 1.41)), 1)), 0.5)",        // not the root of two
                           "mul(mul(%x, add(erf(div(%x, 1.4142135)), 2)), 0.5)",   // 2 + erf
                           "mul(mul(%x, add(erf(div(%x, 1.4142135)), 1)), 0.25)",  // half of it
                           "mul(mul(%z, add(erf(div(%x, 1.4142135)), 1)), 0.5)",   // another factor
                           "mul(mul(%x, 0.5), add(tanh(mul(0.7978846, add(%x, mul(0.05, pow(%x, 3))))), 1))",
                           "mul(mul(%x, 0.5), add(tanh(mul(0.7978846, add(%x, mul(0.044715, pow(%x, 2))))), 1))",
                           "mul(mul(%x, 0.5), add(sigmoid(%x), 1))"})
    expect_untouched("recognise_gelu", "(%x: f32[2,3], %z: f32[2,3]) { return \"y\"=" + std::string(body) + " }");
  // A constant that makes the value larger.
  expect_untouched("recognise_gelu", R"((%x: f32[2,3]) {
    return "y"=mul(mul(%x, add(erf(div(%x, 1.4142135)), 1)), const f32[1,1,1] [0.5])
  })");
}

}  // namespace
}  // namespace isomer::testing
