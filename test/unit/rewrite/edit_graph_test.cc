// A graph that rewrites were applied to, as a value again.
#include "rewrite/edit_graph.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "ir/text.h"
#include "ops/table.h"
#include "rewrite/apply.h"

namespace isomer::rewrite {
namespace {

// Two rewrites share the shapes that both ask for: it must not show which one was applied first.
TEST(EditGraph, TheOrderOfRewritesDoesNotShow) {
  const auto rule = parse_rules(
      "rule apart : exact\n"
      "  ?x : T[A, B]\n"
      "  sigmoid(?x) => reshape(sigmoid(reshape(?x, [A, B, 1])), [A, B])\n",
      ops::table());
  ASSERT_TRUE(rule.ok()) << rule.error().to_string();
  ir::GraphBuilder b(ops::table(), "two");
  const ir::Value x = *b.input("x", Type{DType::F32, Shape({3, 4})});
  const ir::Value first = *b.add1("sigmoid", {x}), third = *b.add1("sigmoid", {*b.add1("neg", {x})});
  b.output("first", first);
  b.output("third", third);
  const auto graph = std::move(b).finish();
  ASSERT_TRUE(graph.ok()) << graph.error().to_string();
  AttrHabitTable habits(ops::table());
  const Matcher matcher({&(*rule)[0]}, habits);
  std::vector<ir::Graph> made;
  for (const bool backwards : {false, true}) {
    EditGraph edit(*graph, ops::table(), habits);
    std::vector<Match> matches = matcher.all(edit);
    ASSERT_EQ(matches.size(), 2U);
    if (backwards) std::reverse(matches.begin(), matches.end());
    for (const Match& m : matches) ASSERT_TRUE(apply(edit, (*rule)[0], m).ok());
    made.push_back(*edit.graph());
  }
  EXPECT_EQ(ir::print(made[0]), ir::print(made[1]));
  EXPECT_TRUE(identical(made[0], made[1]));
}

}  // namespace
}  // namespace isomer::rewrite
