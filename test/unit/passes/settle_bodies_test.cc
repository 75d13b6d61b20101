#include "test/unit/passes/before_after.h"

namespace isomer::testing {
namespace {

const ir::Node& loop_of(const ir::Graph& g) {
  for (const ir::Node& n : g.nodes())
    if (n.op->name == "loop") return n;
  ADD_FAILURE() << "there is no loop";
  return g.node(0);
}

TEST(SettleBodies, AStateThatNeverChangesIsCaptured) {
  const passes::Result r = expect_applies("settle_bodies", R"((%x: f32[3], %w: f32[3]) {
    %y, %same = loop(const i64[] 4, _, %x, %w){body=graph @b(%i: i64[], %k: bool[], %v: f32[3], %u: f32[3]) {
      return "k"=%k, "n"=add(%v, %u), "u"=%u }} : f32[3], f32[3]
    return "y"=%y, "same"=%same
  })");
  const ir::Node& loop = loop_of(r.graph);
  EXPECT_EQ(loop.types.size(), 1U);
  ASSERT_NE(loop.attrs.get<int64_t>("captures"), nullptr);
  EXPECT_EQ(*loop.attrs.get<int64_t>("captures"), 1);
  EXPECT_EQ(r.graph.outputs()[1].value, (ir::Value{1, 0}));
}

TEST(SettleBodies, AConditionOnKnownNumbersBecomesACount) {
  const passes::Result r = expect_applies("settle_bodies", R"((%x: f32[3]) {
    %y, %c = loop(_, _, %x, const i64[] 0){body=graph @b(%i: i64[], %k: bool[], %v: f32[3], %c: i64[]) {
      %d = add(%c, const i64[] 3)
      %z = add(%v, %v)
      return "k"=less(%d, const i64[] 14), "n"=%z, "c"=%d }} : f32[3], i64[]
    return "y"=%y, "c"=%c
  })");
  const ir::Node& loop = loop_of(r.graph);
  ASSERT_FALSE(loop.inputs[0].is_none());
  EXPECT_EQ(r.graph.node(loop.inputs[0].node).attrs.get<Tensor>("value")->integer(0), 5);
  EXPECT_TRUE(loop.inputs[1].is_none());
}

TEST(SettleBodies, BranchesTakeTheSizesTheyCapture) {
  const passes::Result r = expect_applies("settle_bodies", R"((%c: bool[], %x: f32[2,1]) {
    %y = if(%c, %x){captures=1,
      then_branch=graph @t(%a: f32["n","m"]) { return "r"=relu(%a) },
      else_branch=graph @e(%a: f32["n","m"]) { return "r"=neg(%a) }}
    return "y"=%y
  })");
  const ir::Node& branch = r.graph.node(r.graph.outputs()[0].value.node);
  const ir::GraphRef* then = branch.attrs.get<ir::GraphRef>("then_branch");
  ASSERT_NE(then, nullptr);
  EXPECT_EQ((*then)->inputs()[0].types[0].to_string(), "f32[2,1]");
}

// Distances of rows to rows, as scikit-learn's converter writes them: nothing is declared of the element.
TEST(SettleBodies, ScansTakeTheSizesOfStatesAndElements) {
  const passes::Result r = expect_applies("settle_bodies", R"((%x: f32[5,4], %rows: f32[3,4]) {
    %same, %d = scan(%x, %rows){num_scan_inputs=1, body=graph @b(%s: f32["n",4], %row: f32[*]) {
      return "s"=identity(%s), "d"=reduce_sum_square(sub(%s, %row), const i64[1] [1]){keepdims=0} }}
    return "d"=%d
  })");
  EXPECT_EQ(r.graph.type(r.graph.outputs()[0].value).to_string(), "f32[3,5]");
}

TEST(SettleBodies, AConditionOnDataStays) {
  expect_untouched("settle_bodies", R"((%x: f32[3]) {
    %y = loop(const i64[] 9, _, %x){body=graph @b(%i: i64[], %k: bool[], %v: f32[3]) {
      %z = add(%v, %v)
      return "k"=less(reduce_sum(%z){keepdims=0}, const f32[] 5), "n"=%z }} : f32[3]
    return "y"=%y
  })");
}

}  // namespace
}  // namespace isomer::testing
