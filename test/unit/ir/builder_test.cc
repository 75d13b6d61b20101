// What the builder refuses and what it shares.
#include <gtest/gtest.h>

#include "ir/graph.h"
#include "ir/verify.h"
#include "ops/table.h"

namespace isomer {
namespace {

TEST(Builder, ConstantsAreSharedByContentAndKeepTheirNames) {
  ir::GraphBuilder b(ops::table(), "g");
  const ir::Value first = b.constant(Tensor::ints({1, 2}), "a");
  EXPECT_EQ(b.constant(Tensor::ints({1, 2}), "a"), first);
  EXPECT_EQ(b.constant(Tensor::ints({1, 2})), first);
  const ir::Value second = b.constant(Tensor::ints({1, 2}), "b");
  EXPECT_NE(second, first);
  EXPECT_EQ(b.constant(Tensor::ints({1, 2}), "b"), second);
  EXPECT_NE(b.constant(Tensor::ints({1, 3}), "a"), first);
}

// Would take minutes if finding one of many equal constants looked at all of them.
TEST(Builder, ManyConstantsOfOneContentAreNoTrouble) {
  ir::GraphBuilder b(ops::table(), "g");
  for (int i = 0; i < 100'000; ++i) b.constant(Tensor::ints({1}), "c" + std::to_string(i));
  EXPECT_EQ(b.graph().nodes().size(), 100'000u);
}

TEST(Builder, AGraphAttributeWithoutAGraphIsRefused) {
  const ir::AttrValue none = ir::GraphRef();
  EXPECT_EQ(ir::hash(none), ir::hash(none));
  EXPECT_TRUE(ir::equal(none, none));
  ir::GraphBuilder body(ops::table(), "body");
  EXPECT_FALSE(ir::equal(none, std::make_shared<const ir::Graph>(*std::move(body).finish())));
  ir::GraphBuilder b(ops::table(), "g");
  const ir::Value c = b.constant(Tensor::int_scalar(DType::Bool, 1));
  const auto r = b.add("if", {c}, {{"then_branch", none}, {"else_branch", none}});
  ASSERT_FALSE(r.ok());
  EXPECT_EQ(r.error().code, "E-op");
}

TEST(Builder, ADeclaredShapeThatNoTensorHasIsRefused) {
  ir::GraphBuilder b(ops::table(), "g");
  const ir::Value x = *b.input("x", {DType::F32, Shape{2, 3}, nullptr});
  const ir::Value y = b.add("non_zero", {x})->at(0);
  EXPECT_FALSE(b.declare_type(y, {DType::I64, Shape{2, int64_t{1} << 62}, nullptr}).ok());
  EXPECT_TRUE(b.declare_type(y, {DType::I64, Shape{2, 6}, nullptr}).ok());
}

// Every operator without any input: an output whose type an absent input would say is a diagnostic.
TEST(Builder, OperatorsWithoutInputsAreRefusedOrBuilt) {
  for (const ir::OpDef& op : ops::table().records()) {
    for (size_t outputs = 0; outputs < 5; ++outputs) {
      ir::GraphBuilder b(ops::table(), "g");
      const auto r = b.add(op, {}, {}, {}, outputs);
      EXPECT_TRUE(r.ok() || !r.error().message.empty()) << op.name;
    }
  }
}

}  // namespace
}  // namespace isomer
