// Groups that share rows, element-wise chains, pools, reductions, moves: everything that is no contraction.
#include <fmt/format.h>

#include "test/unit/compile/compiled.h"

namespace isomer {
namespace {

TEST(Rows, MoreWorkThanElements) {
  // Few channels with a long sum each: there are no more pieces than vectors.
  expect_compiles(R"(graph @g(%x: f32[1,3,100,90], %w: f32[80,3,1,1], %s: f32[80], %b: f32[80]) {
    return group_normalization(conv(%x, %w), %s, %b){num_groups=8}, instance_normalization(conv(%x, %w), %s, %b) })");
}

TEST(Rows, ShortRows) {
  for (const int n : {3, 8, 10, 16, 21, 31})
    expect_compiles(fmt::format(R"(graph @g(%x: f32[9,{}]) {{
      return log_softmax(%x), softmax(%x), reduce_max(%x, [1]), reduce_prod(%x, [1]), reduce_sum(cast(%x){{to=i32}}, [1]) }})",
                                n));
}

TEST(Rows, SoftmaxAndNorms) {
  for (const char* axis : {"0", "1", "2"})
    expect_compiles(std::string("graph @g(%x: f32[5,37,4]) { return softmax(%x){axis=") + axis + "} }");
  expect_compiles("graph @g(%x: f32[6,33], %s: f32[33], %b: f32[33]) { return layer_normalization(%x, %s, %b) }");
  expect_compiles("graph @g(%x: f32[2,6,5,7], %s: f32[6], %b: f32[6]) { return instance_normalization(%x, %s, %b) }");
  expect_compiles(
      "graph @g(%x: f32[2,6,5,7], %s: f32[6], %b: f32[6]) { return group_normalization(%x, %s, %b){num_groups=3} }");
  expect_compiles("graph @g(%x: f32[2,5,6]) { return log_softmax(%x){axis=1}, reduce_mean(%x, [0,2]) }");
}

TEST(Rows, ReductionsOverAnyAxes) {
  for (const char* op : {"reduce_sum", "reduce_max", "reduce_prod", "reduce_l2", "reduce_log_sum_exp"})
    for (const char* axes : {"[0]", "[1]", "[2]", "[0,2]", "[0,1,2]"})
      expect_compiles(std::string("graph @g(%x: f32[4,19,35]) { return ") + op + "(%x, " + axes + ") }", 2e-5);
  expect_compiles("graph @g(%x: i32[4,19,35]) { return reduce_sum(%x, [1]), reduce_min(%x, [0,2]) }", 0);
  for (const char* more : {"", ", select_last_index=1", ", keepdims=0"})
    expect_compiles(std::string("graph @g(%x: f32[4,19,35]) { return arg_max(%x){axis=1") + more +
                        "}, arg_min(%x){axis=2" + more + "} }",
                    0);
}

TEST(Rows, Pools) {
  for (const char* a : {"{kernel_shape=[3,3], strides=[2,2], pads=[1,1,1,1]}", "{kernel_shape=[2,2], ceil_mode=1}"}) {
    expect_compiles(std::string("graph @g(%x: f32[1,20,9,9]) { return max_pool(%x)") + a + " }");
    expect_compiles(std::string("graph @g(%x: f32[1,20,9,9]) { return average_pool(%x)") + a + " }");
  }
  expect_compiles("graph @g(%x: f32[2,20,9,9]) { return global_average_pool(%x), global_max_pool(%x) }");
}

TEST(Rows, MovesAndViews) {
  expect_compiles("graph @g(%x: f32[3,4,5]) { return transpose(%x){perm=[2,0,1]}, reshape(%x, [5,12]), %x }", 0);
  expect_compiles(
      "graph @g(%x: f32[3,4], %y: f32[3,7]) { %c = concat(%x, %y){axis=1} return %c, slice(%c, [1], [9], [1], [3]) }",
      0);
  expect_compiles("graph @g(%x: f32[3,4]) { return pad(%x, [1,0,2,3], const f32[] 2), tile(%x, [2,3]) }", 0);
  expect_compiles("graph @g(%x: f32[4,6]) { %y = reshape(%x, [24]) return relu(%y), reshape(relu(%y), [2,12]) }", 0);
}

TEST(Rows, ElementwiseChainsOfAllSizes) {
  for (const char* dims : {"[]", "[1]", "[3]", "[17]", "[2,3,5]", "[1000]", "[70001]", "[300,1,301]"})
    expect_compiles(std::string("graph @g(%x: f32") + dims + ", %y: f32" + dims +
                    ") { return mul(add(%x, %y), sub(%x, const f32[] 0.5)) }");
  expect_compiles("graph @g(%x: f32[5,1,7], %y: f32[4,1]) { return add(%x, %y) }");
  expect_compiles("graph @g(%x: f32[40]) { return erf(%x), tanh(%x), exp(%x), sigmoid(%x), log(abs(%x)), gelu(%x) }");
}

// Every value is used twice by the next: whoever walks an expression as a tree does not come back.
TEST(Rows, ExpressionsThatShareAreWalkedOnce) {
  std::string text = "graph @g(%x: f32[4,8], %y: f32[8]) {\n  %v0 = add(%x, %y)\n  %v1 = tanh(%v0)\n";
  for (int i = 2; i < 120; ++i)
    text += fmt::format("  %v{} = {}(%v{}, %v{})\n", i, i % 3 ? "sub" : "mul", i - 1, i - 2);
  expect_compiles(text + "  return tanh(%v119) }");
}

TEST(Rows, EveryElementType) {
  for (const char* t : {"f64", "f16", "bf16", "i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64"}) {
    const double tolerance = t[0] == 'f' || t[0] == 'b' ? (t[1] == '6' ? 1e-12 : 1e-2) : 0;
    expect_compiles(std::string("graph @g(%x: ") + t + "[3,21], %y: " + t + "[21]) { return mul(add(%x, %y), %x) }",
                    tolerance);
  }
  expect_compiles("graph @g(%x: f32[33], %y: f32[33]) { return where(less(%x, %y), %x, const f32[] 2), less(%x, %y) }");
}

// What is rounded is the mean: a half cannot hold the sum of so many.
TEST(Rows, MeansOfHalvesWhoseSumsAreTooLarge) {
  for (const char* mean :
       {"global_average_pool(%b)", "average_pool(%b){kernel_shape=[128,128]}", "reduce_mean(%b, const i64[2] [2,3])",
        "conv(%b, const f16[1,2,128,128] splat(0.0001), const f16[1] [0.5])"})
    expect_compiles(fmt::format("graph @g(%x: f16[1,2,128,128]) {{\n"
                                "  %b = add(mul(%x, const f16[] [10]), const f16[] [20])\n"
                                "  return {} }}",
                                mean),
                    1e-3);
}

TEST(Rows, GathersCheckTheirIndices) {
  expect_compiles("graph @g(%x: f32[6,5]) { return gather(%x, const i64[4] [0,-1,5,2]), gather(%x, [1,3]){axis=1} }",
                  0);
  const ir::Graph g = graph_of("graph @g(%x: f32[6,5], %i: i64[2]) { return gather(%x, %i){axis=1} }");
  compile::ExecutableOptions options;
  options.lower.target = *codegen::host_target();
  auto made = compile::Executable::build(g, ops::table(), options);
  ASSERT_TRUE(made.ok());
  auto runner = compile::Runner::make(*made, 1);
  const Tensor x(DType::F32, {6, 5});
  EXPECT_TRUE(runner->run({x, Tensor::ints({0, 4})}).ok());
  const auto bad = runner->run({x, Tensor::ints({0, 5})});  // inside the buffer, outside of its row
  ASSERT_FALSE(bad.ok());
  EXPECT_NE(bad.error().message.find("range"), std::string::npos) << bad.error().message;
}

TEST(Rows, EmptyTensors) {
  expect_compiles(
      "graph @g(%x: f32[0,3], %y: f32[2,3]) { return concat(%x, %y){axis=0}, reduce_sum(%x, [0]), relu(%x) }");
}

TEST(Rows, WithoutFusionTheSame) {
  compile::ExecutableOptions naive;
  naive.lower.fuse = naive.lower.contract = false;
  naive.wide = true;
  expect_compiles("graph @g(%x: f32[3,9], %w: f32[9,4]) { return softmax(relu(matmul(%x, %w))) }", 1e-6, naive);
}

// Short rows run several at a time; tasks end with whole sets of them.
TEST(Rows, SeveralShortRowsAtATime) {
  for (const char* shape : {"3,4,33", "2,33", "7,33", "10,130", "118,4,64", "6,300", "4,600", "5,2,1"})
    for (const char* op : {"softmax(%x){axis=-1}", "log_softmax(%x){axis=-1}", "sub(%x, reduce_mean(%x, [-1]))",
                           "div(%x, reduce_l2(%x, [-1]))"})
      expect_compiles(fmt::format("graph @g(%x: f32[{}]) {{ return {} }}", shape, op));
}

}  // namespace
}  // namespace isomer
