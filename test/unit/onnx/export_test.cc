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

// The opset of a file that holds one call of the operator.
int64_t opset_of(const char* op, const std::vector<Type>& types, ir::Attrs attrs) {
  ir::GraphBuilder b(ops::table(), "g");
  std::vector<ir::Value> inputs;
  for (const Type& t : types) inputs.push_back(*b.input("x" + std::to_string(inputs.size()), t));
  const auto y = b.add1(op, inputs, std::move(attrs));
  EXPECT_TRUE(y.ok()) << y.error().to_string();
  b.output("y", *y);
  const auto bytes = onnx::save_bytes(*std::move(b).finish());
  EXPECT_TRUE(bytes.ok()) << bytes.error().to_string();
  const auto back = onnx::load_bytes(std::as_bytes(std::span(*bytes)), ops::table());
  EXPECT_TRUE(back.ok()) << back.error().to_string();
  for (const auto& [domain, version] : back->graph.metadata().opsets)
    if (domain.empty()) return version;
  return 0;
}

TEST(OnnxExport, AsksForTheOpsetThatBroughtAnAttribute) {
  const std::vector<Type> quantised = {{DType::I8, {4}, nullptr}, {DType::F32, {}, nullptr}};
  EXPECT_LT(opset_of("dequantize_linear", quantised, {}), 23);
  EXPECT_EQ(opset_of("dequantize_linear", quantised, {{"output_dtype", DType::F16}}), 23);
  const std::vector<Type> image = {{DType::F32, {1, 1, 4, 4}, nullptr}};
  EXPECT_LT(opset_of("space_to_depth", image, {{"blocksize", int64_t{2}}}), 28);
  EXPECT_EQ(opset_of("space_to_depth", image, {{"blocksize", int64_t{2}}, {"mode", std::string("CRD")}}), 28);
}

}  // namespace
}  // namespace isomer
