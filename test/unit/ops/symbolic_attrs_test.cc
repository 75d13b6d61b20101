// Attributes and size operands that are symbols: what rules over all strides and pads are written with.
#include <gtest/gtest.h>

#include "ir/graph.h"
#include "ir/text.h"
#include "ops/table.h"

namespace isomer::ops {
namespace {

Dim symbol(const char* name) { return Dim::symbol(name); }
ir::Sizes sizes(std::vector<Dim> dims) { return ir::Sizes(std::move(dims)); }
Type floats(std::vector<Dim> dims) { return {DType::F32, Shape(std::move(dims)), nullptr}; }

TEST(SymbolicAttrs, ConvolutionWithEveryWindowAttribute) {
  ir::GraphBuilder b(table(), "g");
  const auto x = b.input("x", floats({symbol("N"), symbol("G") * symbol("C"), symbol("H")}));
  const auto w = b.input("w", floats({symbol("G") * symbol("O"), symbol("C"), symbol("K")}));
  const auto y = b.add1("conv", {*x, *w},
                        {{"strides", sizes({symbol("s")})},
                         {"dilations", sizes({symbol("d")})},
                         {"pads", sizes({symbol("p"), symbol("q")})},
                         {"group", sizes({symbol("G")})}});
  ASSERT_TRUE(y.ok()) << y.error().to_string();
  const Dim room = symbol("H") + symbol("p") + symbol("q") - ((symbol("K") - Dim(1)) * symbol("d") + Dim(1));
  EXPECT_EQ(b.type(*y).shape, Shape({symbol("N"), symbol("G") * symbol("O"), floor_div(room, symbol("s")) + Dim(1)}));
}

TEST(SymbolicAttrs, SizesWithoutSymbolsAreIntegers) {
  ir::GraphBuilder b(table(), "g");
  const auto x = b.input("x", floats({1, 2, 9}));
  const auto one = b.add1("max_pool", {*x}, {{"kernel_shape", sizes({3})}});
  const auto two = b.add1("max_pool", {*x}, {{"kernel_shape", std::vector<int64_t>{3}}});
  ASSERT_TRUE(one.ok() && two.ok());
  EXPECT_EQ(*one, *two);
}

TEST(SymbolicAttrs, OnlyWhereTheRecordReadsThemSo) {
  ir::GraphBuilder b(table(), "g");
  const auto x = b.input("x", floats({1, 2, 9}));
  const auto y = b.add1("softmax", {*x}, {{"axis", sizes({symbol("a")})}});
  ASSERT_FALSE(y.ok());
  EXPECT_NE(y.error().message.find("kind sizes"), std::string::npos) << y.error().to_string();
}

TEST(SymbolicAttrs, OperandsThatHoldSizes) {
  ir::GraphBuilder b(table(), "g");
  const auto x = b.input("x", floats({symbol("N"), symbol("H")}));
  const ir::Value pads = b.sizes({0, symbol("p"), 0, symbol("q")});
  const auto y = b.add1("pad", {*x, pads});
  ASSERT_TRUE(y.ok()) << y.error().to_string();
  EXPECT_EQ(b.type(*y).shape, Shape({symbol("N"), symbol("H") + symbol("p") + symbol("q")}));
  const ir::Value shape = b.sizes({symbol("N") * symbol("H")});
  const auto z = b.add1("reshape", {*x, shape});
  ASSERT_TRUE(z.ok());
  EXPECT_EQ(b.type(*z).shape, Shape({symbol("N") * symbol("H")}));
  b.output("y", *y);
  const auto g = std::move(b).finish();
  ASSERT_TRUE(g.ok());
  EXPECT_NE(ir::print(*g).find("const i64[4] [0, p, 0, q]"), std::string::npos) << ir::print(*g);
}

TEST(SymbolicAttrs, DimsAsData) {
  const Dim d = floor_div(symbol("H") + Dim(1), symbol("s")) * Dim(2) - symbol("N") * symbol("N") + Dim(3);
  const std::vector<Dim::Product> terms = d.terms();
  ASSERT_EQ(terms.size(), 3U);
  Dim again(0);
  for (const Dim::Product& t : terms) {
    Dim product(t.coefficient);
    for (const Dim::Factor& f : t.factors)
      product = product * (f.kind == Dim::Factor::Kind::Symbol ? Dim::symbol(f.name) : floor_div(f.a, f.b));
    again = again + product;
  }
  EXPECT_EQ(again, d);
}

}  // namespace
}  // namespace isomer::ops
