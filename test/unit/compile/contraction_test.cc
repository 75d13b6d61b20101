// Contractions by register tiles: every way rows and panels come to a tile, and every tail.
#include "test/unit/compile/compiled.h"

namespace isomer {
namespace {

std::string product(int m, int n, int k, const std::string& after = "") {
  const auto s = [](int x) { return std::to_string(x); };
  return "graph @g(%a: f32[" + s(m) + "," + s(k) + "], %b: f32[" + s(k) + "," + s(n) + "]) { %y = matmul(%a, %b) " +
         after + " return " + (after.empty() ? "%y" : "%z") + " }";
}

TEST(Contraction, EverySmallShapeOfAMatrixProduct) {
  for (const int m : {1, 13, 14, 29})
    for (const int n : {1, 16, 31, 33, 65})
      for (const int k : {1, 5, 19}) expect_compiles(product(m, n, k));
}

TEST(Contraction, ManyRowsAndManyColumns) {
  expect_compiles(product(200, 40, 64));
  expect_compiles(product(9, 700, 128));
  expect_compiles(product(49, 512, 256, "%z = relu(%y)"));  // rows so far apart that they are gathered first
}

TEST(Contraction, BatchesAndBroadcasts) {
  expect_compiles("graph @g(%a: f32[3,5,7], %b: f32[3,7,9]) { return matmul(%a, %b) }");
  expect_compiles("graph @g(%a: f32[2,3,5,7], %b: f32[7,32]) { return matmul(%a, %b) }");
  expect_compiles("graph @g(%a: f32[2,1,5,7], %b: f32[3,7,33]) { return matmul(%a, %b) }");
  expect_compiles("graph @g(%a: f32[4,6], %b: f32[6]) { return matmul(%a, %b) }");
}

TEST(Contraction, TransposedOperands) {
  for (const char* flags : {"transA=1", "transB=1", "transA=1, transB=1"}) {
    const std::string a = std::string(flags).find("transA") == std::string::npos ? "[20,36]" : "[36,20]";
    const std::string b = std::string(flags).find("transB") == std::string::npos ? "[36,40]" : "[40,36]";
    expect_compiles("graph @g(%a: f32" + a + ", %b: f32" + b + ", %c: f32[40]) { return gemm(%a, %b, %c){" + flags +
                    ", alpha=0.5, beta=2.0} }");
  }
}

TEST(Contraction, AttentionWithItsMoves) {
  expect_compiles(R"(graph @g(%q: f32[1,10,12], %k: f32[1,10,12], %v: f32[1,10,12]) {
    %q4 = transpose(reshape(%q, [1,10,3,4])){perm=[0,2,1,3]}
    %k4 = transpose(reshape(%k, [1,10,3,4])){perm=[0,2,3,1]}
    %v4 = transpose(reshape(%v, [1,10,3,4])){perm=[0,2,1,3]}
    %s = softmax(mul(matmul(%q4, %k4), const f32[] 0.5)){axis=-1}
    return reshape(transpose(matmul(%s, %v4)){perm=[0,2,1,3]}, [1,10,12])
  })");
}

TEST(Contraction, ConvolutionsOfEveryKind) {
  const char* attrs[] = {"",
                         "{pads=[1,1,1,1]}",
                         "{pads=[0,2,1,0]}",
                         "{strides=[2,2], pads=[1,1,1,1]}",
                         "{dilations=[2,2], pads=[2,2,2,2]}",
                         "{strides=[1,2], dilations=[2,1], pads=[1,0,2,1]}"};
  for (const char* a : attrs)
    expect_compiles(std::string("graph @g(%x: f32[2,5,9,11], %b: f32[18]) { %w = const f32[18,5,3,3] splat(0.125) ") +
                    "return relu(conv(%x, %w, %b)" + a + ") }");
  expect_compiles("graph @g(%x: f32[1,8,6,6], %w: f32[40,8,1,1]) { return conv(%x, %w) }");
  expect_compiles("graph @g(%x: f32[1,8,6,6], %w: f32[40,8,1,1]) { return conv(%x, %w){strides=[2,2]} }");
  expect_compiles("graph @g(%x: f32[2,3,17], %w: f32[4,3,5]) { return conv(%x, %w){pads=[2,2]} }");
  expect_compiles("graph @g(%x: f32[1,2,5,6,4], %w: f32[3,2,2,3,2]) { return conv(%x, %w){pads=[1,1,0,0,1,1]} }");
}

// Few elements of a row lie together, many rows do: lines are copied, each tap with borders of its own.
TEST(Contraction, FirstLayersOnFewChannels) {
  for (const char* a : {"", "{pads=[2,2,2,2]}", "{pads=[0,3,4,1]}", "{strides=[2,2], pads=[1,1,1,1]}",
                        "{strides=[1,3], pads=[2,0,2,4]}", "{dilations=[2,3], pads=[4,6,4,6]}"})
    for (const char* x : {"1,1,40,37", "2,3,23,50", "3,2,19,16"}) {
      const std::string channels(1, x[2]);
      expect_compiles(std::string("graph @g(%x: f32[") + x + "], %w: f32[37," + channels +
                      ",5,5], %b: f32[37]) { %y = relu(conv(%x, %w, %b)" + a +
                      ") return %y, reduce_mean(%y, const i64[2] [2,3]) }");
    }
  expect_compiles("graph @g(%x: f32[1,1,30,40], %w: f32[64,1,3,3]) { return conv(%x, %w){pads=[40,40,40,40]} }");
  expect_compiles("graph @g(%x: f32[1,3,1000], %w: f32[64,3,5]) { return conv(%x, %w){pads=[2,2]} }");
  expect_compiles("graph @g(%x: f32[1,3,9,10,40], %w: f32[20,3,3,3,3]) { return conv(%x, %w){pads=[1,1,1,1,1,1]} }");
}

TEST(Contraction, ResultsWhoseRowsLieTogether) {
  expect_compiles(R"(graph @g(%x: f32[1,24,20,33], %w: f32[37,24,3,3], %b: f32[37], %r: f32[1,37,20,33]) {
    return relu(add(conv(%x, %w, %b){pads=[1,1,1,1]}, %r)) })");
  expect_compiles("graph @g(%x: f32[2,24,20,33], %w: f32[5,24,1,1]) { return conv(%x, %w) }");
  expect_compiles("graph @g(%x: f32[200,64], %w: f32[64,50]) { return transpose(matmul(%x, %w)){perm=[1,0]} }");
}

TEST(Contraction, GroupsAndDepthwise) {
  expect_compiles(R"(graph @g(%x: f32[1,32,7,7], %b: f32[48]) { %w = const f32[48,16,3,3] splat(0.1)
    return relu(conv(%x, %w, %b){group=2, pads=[1,1,1,1]}), conv(%x, %w){group=2, strides=[2,2]} })");
  expect_compiles("graph @g(%x: f32[2,8,9], %w: f32[64,2,3]) { return conv(%x, %w){group=4} }");
  expect_compiles("graph @g(%x: f32[1,8,7,7], %w: f32[12,2,3,3]) { return conv(%x, %w){group=4, pads=[1,1,1,1]} }");
  expect_compiles(
      "graph @g(%x: f32[1,20,7,7], %b: f32[20]) { %w = const f32[20,1,3,3] splat(0.5) return clip(conv(%x, %w, "
      "%b){group=20, pads=[1,1,1,1], strides=[2,2]}, const f32[] 0, const f32[] 6) }");
}

TEST(Contraction, ResidualAddsAreReadInTheEpilogue) {
  expect_compiles(R"(graph @g(%x: f32[1,16,9,9], %w: f32[16,16,3,3], %v: f32[16,16,1,1]) {
    %a = relu(conv(%x, %w){pads=[1,1,1,1]})
    %b = conv(%a, %v)
    return relu(add(%b, %x)), %b
  })");
}

}  // namespace
}  // namespace isomer
