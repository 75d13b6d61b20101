#include "ir/text.h"

#include <gtest/gtest.h>

#include <cstring>

#include "ops/table.h"

namespace isomer::ir {
namespace {

Graph parsed(std::string_view text) {
  auto g = parse(text, ops::table());
  if (!g.ok()) ADD_FAILURE() << g.error().to_string();
  return g.ok() ? *std::move(g) : Graph();
}

std::string refusal(std::string_view text) {
  const auto g = parse(text, ops::table(), nullptr, "t.iso");
  return g.ok() ? "accepted" : g.error().to_string();
}

void expect_round_trip(const Graph& g) {
  const std::string text = print(g);
  const auto back = parse(text, ops::table());
  ASSERT_TRUE(back.ok()) << back.error().to_string() << "\n" << text;
  EXPECT_TRUE(identical(g, *back)) << text << "\n" << print(*back);
  EXPECT_EQ(print(*back), text);
}

TEST(Text, PrintsWhatItReads) {
  const std::string text =
      "graph @mlp(%x: f32[N,2], %b: f32[4]) meta{opsets=[\"\": 17], properties=[\"a\": \"b\"], producer=\"p\", "
      "ir_version=8} {\n"
      "  %w = const f32[2,4] [1, 2, 3, 4, 5, 6.5, nan(0x7fc00001), -inf]\n"
      "  %h = matmul(%x, %w) : f32[N,4] @\"MatMul_0\" from(\"MatMul_0\", \"Add_1\")\n"
      "  %\"a/b:0\" = add(%h, %b) : f32[N,4]\n"
      "  %y = relu(%\"a/b:0\") : f32[N,4]\n"
      "  return %y, \"other name\"=%h\n"
      "}\n";
  EXPECT_EQ(print(parsed(text)), text);
}

TEST(Text, KeepsEqualNodesApart) {
  const Graph g = parsed(
      "graph @g(%x: f32[2]) { %a = relu(%x) %b = relu(%x) %c = const f32[] [1] %d = const f32[] [1] "
      "%e = add(%a, %c) %f = add(%b, %d) return %e, %f }");
  EXPECT_EQ(g.nodes().size(), 7u);
  expect_round_trip(g);
}

TEST(Text, TakesNestedCallsAndNumbers) {
  const Graph g = parsed("graph @g(%x: f16[2]) { return \"y\"=relu(add(1.0, %x)) }");
  EXPECT_EQ(g.outputs()[0].name, "y");
  EXPECT_EQ(g.type(g.outputs()[0].value).to_string(), "f16[2]");
  expect_round_trip(g);
}

TEST(Text, HostileNamesSurvive) {
  GraphBuilder b(ops::table(), std::string("a\0b\n\"\\\xff", 7));
  const Value x = *b.input("", {DType::F32, {Dim::symbol("batch size \"q\"\n"), 2}, nullptr});
  const Value y = *b.add1("relu", {x}, {}, {{"%x = \xc3\xa4 // }"}, std::string("\x01\x7f", 2), {"", "]"}});
  b.output("", y);
  Metadata m;
  m.doc = "line\nline";
  b.set_metadata(m);
  expect_round_trip(*std::move(b).finish());
}

TEST(Text, ConstantsKeepTheirBits) {
  GraphBuilder b(ops::table(), "bits");
  for (DType t : kAllDTypes) {
    const size_t width = size_of(t);
    Tensor v(t, {64});
    for (size_t i = 0; i < v.byte_size(); ++i)
      v.mutable_bytes()[i] = static_cast<std::byte>(i % width == width - 1 ? i * 37 : (i % 5 == 0 ? 0xff : i * 91));
    b.output(std::string(name(t)), b.constant(v, std::string(name(t))));
  }
  b.output("splat", b.constant(Tensor(DType::I8, {4, 4}), "splat"));
  b.output("empty", b.constant(Tensor(DType::F64, {0, 3}), "empty"));
  expect_round_trip(*std::move(b).finish());
}

TEST(Text, LargeConstantsGoToThePool) {
  GraphBuilder b(ops::table(), "pool");
  Tensor t(DType::F32, {100});
  t.set_real(3, 0.1);
  b.output("w", b.constant(t, "w"));
  const Graph g = *std::move(b).finish();
  ConstantPool pool;
  const std::string text = print(g, &pool);
  EXPECT_NE(text.find("ref("), std::string::npos);
  EXPECT_TRUE(identical(g, *parse(text, ops::table(), &pool)));
  EXPECT_NE(refusal(text).find("no constant"), std::string::npos);
}

TEST(Text, ALongChainIsNoProblem) {
  GraphBuilder b(ops::table(), "chain");
  Value v = *b.input("x", {DType::F32, {2}, nullptr});
  for (int i = 0; i < 200000; ++i) v = *b.add1("relu", {v});
  b.output("y", v);
  expect_round_trip(*std::move(b).finish());
}

TEST(Text, StatedTypesAreChecked) {
  EXPECT_EQ(refusal("graph @g(%x: f32[2]) {\n  %y = relu(%x) : f32[3]\n  return %y\n}"),
            "t.iso:2:19: error[E-type-mismatch]: value 'y' is stated to be f32[3], but its node gives f32[2]");
}

TEST(Text, WrongTextIsRefusedWithItsPlace) {
  EXPECT_EQ(refusal(""), "t.iso:1:1: error[E-text]: expected 'graph', found the end of the text");
  EXPECT_EQ(refusal("graph @g() {\n  %a = const f32[] [\"\n}"),
            "t.iso:2:21: error[E-text]: expected a number of type f32, found ''");
  EXPECT_EQ(refusal("graph @\"g"), "t.iso:1:8: error[E-text]: this string has no closing '\"'");
  EXPECT_EQ(refusal("graph @g(%x: f32[2]) { %y = relu(%z) return %y }"),
            "t.iso:1:34: error[E-text]: there is no value %z before this line");
  EXPECT_EQ(refusal("graph @g(%x: f32[2]) { %x = relu(%x) return %x }"),
            "t.iso:1:24: error[E-duplicate-name]: value %x is defined twice");
  EXPECT_EQ(refusal("graph @g(%x: f32[2]) { %y = nonsense(%x) return %y }"),
            "t.iso:1:29: error[E-unknown-operator]: there is no operator 'nonsense'; `isomer ops` lists them");
  EXPECT_NE(refusal("graph @g() { %c = const f32[68719476736] splat(0) return %c }").find("E-tensor-size"),
            std::string::npos);
  EXPECT_NE(refusal("graph @g() { %c = const f32[1000000000] splat(0) return %c }").find("memory"), std::string::npos);
  EXPECT_NE(refusal("graph @g() { %c = const f32[1000000000] [0] return %c }").find("found fewer"), std::string::npos);
  EXPECT_NE(refusal("graph @g() { %c = const i8[1] [128] return %c }").find("type i8"), std::string::npos);
  EXPECT_NE(refusal("graph @g() { %c = const f32[1] [1e999] return %c }").find("type f32"), std::string::npos);
  EXPECT_NE(refusal("graph @g(%x: f32[2]) { return %x } x").find("expected the end"), std::string::npos);
}

TEST(Text, DeepNestingIsRefused) {
  std::string calls = "graph @g(%x: f32[2]) { return ";
  for (int i = 0; i < 100000; ++i) calls += "relu(";
  EXPECT_NE(refusal(calls).find("nested more than"), std::string::npos);
  std::string graphs;
  for (int i = 0; i < 100000; ++i) graphs += "graph @g() { %x = relu(){body=";
  EXPECT_NE(refusal(graphs).find("E-nesting"), std::string::npos);
}

}  // namespace
}  // namespace isomer::ir
