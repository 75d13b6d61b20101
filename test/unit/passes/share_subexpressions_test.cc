#include "test/unit/passes/before_after.h"

namespace isomer::testing {
namespace {

TEST(ShareSubexpressions, EqualNodesAreOne) {
  const ir::Graph g = graph_of(R"((%x: f32[2]) {
    %a = exp(%x) @"A" from("A")
    %b = exp(%x) @"B" from("B")
    return "y"=add(%a, %b)
  })");
  const passes::Result r = run_passes("share_subexpressions", g);
  EXPECT_EQ(count(r.graph, "exp"), 1) << ir::print(r.graph);
  EXPECT_EQ(r.graph.node(1).origin, (std::vector<std::string>{"A", "B"}));
  expect_same_function(r.graph, g);
}

TEST(ShareSubexpressions, OrderOfOperandsDoesNotCountWhereTheyCommute) {
  const ir::Graph g =
      graph_of("(%x: f32[2], %z: f32[2]) { %a = add(%x, %z) %b = add(%z, %x) return \"y\"=mul(%a, %b) }");
  EXPECT_EQ(count(run_passes("share_subexpressions", g).graph, "add"), 1);
  const ir::Graph h =
      graph_of("(%x: f32[2], %z: f32[2]) { %a = sub(%x, %z) %b = sub(%z, %x) return \"y\"=mul(%a, %b) }");
  EXPECT_EQ(count(run_passes("share_subexpressions", h).graph, "sub"), 2);
}

TEST(ShareSubexpressions, ConstantsOfOneContentAreOne) {
  const ir::Graph g = graph_of(R"((%x: f32[2]) {
    %c = const f32[] 2
    %d = const f32[] 2
    %a = mul(%x, %c)
    %b = mul(%x, %d)
    return "y"=add(%a, %b)
  })");
  EXPECT_EQ(count(run_passes("share_subexpressions", g).graph, "mul"), 1);
}

TEST(ShareSubexpressions, AttributesAndDrawsTellNodesApart) {
  const ir::Graph g = graph_of(R"((%x: f32[2]) {
    %a = leaky_relu(%x){alpha=0.5}
    %b = leaky_relu(%x)
    %c = random_normal_like(%x)
    %d = random_normal_like(%x)
    return "y"=add(%a, %b), "z"=sub(%c, %d)
  })");
  const ir::Graph out = run_passes("share_subexpressions", g).graph;
  EXPECT_EQ(count(out, "leaky_relu"), 2);
  EXPECT_EQ(count(out, "random_normal_like"), 2);
}

}  // namespace
}  // namespace isomer::testing
