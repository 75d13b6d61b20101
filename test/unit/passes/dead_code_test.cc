#include "test/unit/passes/before_after.h"

namespace isomer::testing {
namespace {

TEST(DeadCode, DropsWhatNoOutputNeeds) {
  const ir::Graph g =
      graph_of("(%x: f32[2], %unused: f32[2]) { %a = relu(%x) %b = exp(%a) %c = neg(%b) return \"y\"=%a }");
  const passes::Result r = run_passes("dead_code", g);
  EXPECT_EQ(r.graph.nodes().size(), 3u) << ir::print(r.graph);
  EXPECT_EQ(r.graph.input_count(), 2u);
  expect_same_function(r.graph, g);
}

TEST(DeadCode, DropsOptionalResultsAtTheEnd) {
  expect_pass("dead_code", "(%x: f32[1,1,4]) { %v, %i = max_pool(%x){kernel_shape=[2]} return \"y\"=%v }",
              "(%x: f32[1,1,4]) { return \"y\"=max_pool(%x){kernel_shape=[2]} }");
}

TEST(DeadCode, KeepsResultsBeforeOneThatIsRead) {
  expect_untouched("dead_code", "(%x: f32[1,1,4]) { %v, %i = max_pool(%x){kernel_shape=[2]} return \"y\"=%i }");
}

}  // namespace
}  // namespace isomer::testing
