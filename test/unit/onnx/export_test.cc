// What other readers of ONNX ask of a file that Isomer writes.
#include <gtest/gtest.h>

#include <span>

#include "onnx/onnx.h"
#include "ops/table.h"

namespace isomer {
namespace {

TEST(OnnxExport, GivesEveryNodeANameOfItsOwn) {
  ir::GraphBuilder b(ops::table(), "g");
  const ir::Value x = *b.input("x", {DType::F32, {2}, nullptr});
  b.set_current("norm", {});  // one node of the source becomes three
  const ir::Value y = *b.add1("exp", {*b.add1("neg", {*b.add1("abs", {x})})});
  b.output("y", y);
  const ir::Graph g = *std::move(b).finish();
  const auto bytes = onnx::save_bytes(g);
  ASSERT_TRUE(bytes.ok()) << bytes.error().to_string();
  const auto back = onnx::load_bytes(std::as_bytes(std::span(*bytes)), ops::table());
  ASSERT_TRUE(back.ok()) << back.error().to_string();
  std::vector<std::string> labels;
  for (const ir::Node& n : back->graph.nodes())
    if (!n.label.empty()) labels.push_back(n.label);
  EXPECT_EQ(labels, (std::vector<std::string>{"norm", "norm.1", "norm.2"}));
  EXPECT_TRUE(ir::equal(g, back->graph));
}

TEST(OnnxExport, KeepsAnAttributeForWhichOnnxHasNoDefault) {
  const ir::OpDef* op = ops::table().find("ml_tree_ensemble_regressor");
  ASSERT_NE(op, nullptr);
  ASSERT_NE(op->attr("n_targets"), nullptr);
  EXPECT_FALSE(op->attr("n_targets")->standard.has_value());
}

}  // namespace
}  // namespace isomer
