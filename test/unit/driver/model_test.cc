// The outputs of a model that are wanted.
#include "driver/model.h"

#include <gtest/gtest.h>

#include "ir/text.h"
#include "ops/table.h"

namespace isomer::driver {
namespace {

ir::Graph two_outputs() {
  return *ir::parse(
      R"(graph @g(%x: f32[3], %u: f32[3]) {
           %inner = mul(%x, %x)
           %a = relu(%inner)
           %b = opaque(%u){op_type="Mystery", op_types=["f32[3]"]}
           return "first"=%a, "second"=%b
         })",
      ops::table());
}

TEST(WithOutputs, LeavesOutWhatTheyDoNotNeed) {
  const auto g = with_outputs(two_outputs(), {"first"});
  ASSERT_TRUE(g.ok()) << g.error().to_string();
  EXPECT_EQ(g->input_count(), 2U);
  EXPECT_EQ(g->nodes().size(), 4U);
  ASSERT_EQ(g->outputs().size(), 1U);
  EXPECT_EQ(g->outputs()[0].name, "first");
}

TEST(WithOutputs, TakesValuesInsideInTheirOrder) {
  const auto g = with_outputs(two_outputs(), {"inner", "second", "x"});
  ASSERT_TRUE(g.ok()) << g.error().to_string();
  ASSERT_EQ(g->outputs().size(), 3U);
  EXPECT_EQ(g->node(g->outputs()[0].value.node).op->name, "mul");
  EXPECT_EQ(g->outputs()[2].value, (ir::Value{0, 0}));
}

TEST(WithOutputs, NamesThatAreNotThereAreTold) {
  const auto none = with_outputs(two_outputs(), {"third"});
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.error().code, "E-output-name");
  EXPECT_NE(none.error().message.find("'first', 'second'"), std::string::npos);
  EXPECT_FALSE(with_outputs(two_outputs(), {"first", "first"}).ok());
}

}  // namespace
}  // namespace isomer::driver
