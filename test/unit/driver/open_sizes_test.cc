// Sizes that a model with open ones is priced and checked at.
#include "driver/open_sizes.h"

#include <gtest/gtest.h>

#include "ops/table.h"

namespace isomer::driver {
namespace {

using ir::GraphBuilder;
using ir::Value;

Type f32(std::vector<Dim> dims) { return {DType::F32, Shape(std::move(dims)), nullptr}; }

// A convolution with a window of this extent, of a captured value.
ir::GraphRef window(int64_t extent) {
  GraphBuilder b(ops::table(), "window");
  const Value x = *b.input("x", f32({Dim(1), Dim(1), Dim::symbol("length")}));
  b.output("y", *b.add1("conv", {x, b.constant(Tensor(DType::F32, {1, 1, extent}))}));
  return std::make_shared<const ir::Graph>(*std::move(b).finish());
}

TEST(OpenSizes, AreTakenFromARunWhereBranchesTakeSomeLengthsOnly) {
  GraphBuilder b(ops::table(), "branches");
  const Value flag = *b.input("flag", {DType::Bool, Shape::of({}), nullptr});
  const Value x = *b.input("x", f32({Dim::symbol("batch"), Dim(1), Dim::symbol("n")}));
  b.output("y",
           (*b.add("if", {flag, x},
                   {{"captures", int64_t{1}}, {"then_branch", window(200)}, {"else_branch", window(130)}}, {}, 1))[0]);
  const ir::Graph g = *std::move(b).finish();
  const auto sizes = open_sizes(g, {}, {});
  ASSERT_TRUE(sizes.ok()) << sizes.error().to_string();
  EXPECT_EQ(*sizes, (Sizes{{"batch", 1}, {"n", 224}}));
  EXPECT_EQ(*open_sizes(g, {{"n", 300}}, {}), (Sizes{{"batch", 1}, {"n", 300}}));
}

TEST(OpenSizes, OfOneInputMayBeLongAlone) {
  GraphBuilder b(ops::table(), "state");
  const Value x = *b.input("x", f32({Dim::symbol("batch"), Dim(1), Dim::symbol("n")}));
  const Value state = *b.input("state", f32({Dim(2), Dim::symbol("m"), Dim(8)}));
  b.output("y", *b.add1("conv", {x, b.constant(Tensor(DType::F32, {1, 1, 100}))}));
  b.output("z", *b.add1("concat", {state, b.constant(Tensor(DType::F32, {1, 1, 8}))}, {{"axis", int64_t{0}}}));
  const auto sizes = open_sizes(*std::move(b).finish(), {}, {});
  ASSERT_TRUE(sizes.ok()) << sizes.error().to_string();
  EXPECT_EQ(*sizes, (Sizes{{"batch", 1}, {"m", 1}, {"n", 128}}));
}

// Lines of text of one height.
TEST(OpenSizes, MayBeSmall) {
  GraphBuilder b(ops::table(), "line");
  const Value x = *b.input("x", f32({Dim::symbol("batch"), Dim(1), Dim::symbol("height"), Dim::symbol("width")}));
  const Value y = *b.add1("conv", {x, b.constant(Tensor(DType::F32, {1, 1, 32, 3}))});
  b.output("y", *b.add1("squeeze", {y, b.constant(Tensor::ints({2}))}));
  const auto sizes = open_sizes(*std::move(b).finish(), {}, {});
  ASSERT_TRUE(sizes.ok()) << sizes.error().to_string();
  EXPECT_EQ(*sizes, (Sizes{{"batch", 1}, {"height", 32}, {"width", 32}}));
}

// The mean of four views of each example.
TEST(OpenSizes, OfExamplesMayHaveToBeAMultiple) {
  GraphBuilder b(ops::table(), "views");
  const Value x = *b.input("x", f32({Dim::symbol("batch"), Dim(7)}));
  const Value views = *b.add1("reshape", {x, b.constant(Tensor::ints({4, -1, 7}))});
  b.output("y", *b.add1("reduce_mean", {views, b.constant(Tensor::ints({0}))}, {{"keepdims", int64_t{0}}}));
  const auto sizes = open_sizes(*std::move(b).finish(), {}, {});
  ASSERT_TRUE(sizes.ok()) << sizes.error().to_string();
  EXPECT_EQ(*sizes, (Sizes{{"batch", 4}}));
}

TEST(OpenSizes, ThatNothingFitsAreToldWithTheFirstReason) {
  GraphBuilder b(ops::table(), "large");
  const Value x = *b.input("x", f32({Dim(1), Dim(1), Dim::symbol("n"), Dim::symbol("m")}));
  b.output("y", *b.add1("conv", {x, b.constant(Tensor(DType::F32, {1, 1, 1, 40000}))}));
  const auto sizes = open_sizes(*std::move(b).finish(), {}, {});
  ASSERT_FALSE(sizes.ok());
  EXPECT_NE(sizes.error().message.find("extent 64"), std::string::npos) << sizes.error().to_string();
  EXPECT_NE(sizes.error().to_string().find("--dim"), std::string::npos);
}

}  // namespace
}  // namespace isomer::driver
