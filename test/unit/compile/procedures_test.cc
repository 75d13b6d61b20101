// Operators that are loops but no expressions: the interpreter's results, poisoned memory, any number of threads.
#include <fmt/format.h>

#include "test/unit/compile/compiled.h"

namespace isomer {
namespace {

TEST(Procedures, TheFirstOfEachLineInOrder) {
  // Integers of a small range tie often; k on both sides of the choice between looking and sorting.
  for (const char* type : {"f32", "i32", "u8", "f64"})
    for (const auto& [k, n] :
         std::vector<std::pair<int, int>>{{1, 1}, {3, 7}, {24, 40}, {25, 40}, {100, 100}, {65, 200}})
      for (const int largest : {0, 1})
        expect_compiles(fmt::format(R"(graph @g(%x: f32[2,{0},3]) {{
            %y = cast(mul(%x, const f32[] 4)){{to={1}}}
            %k = const i64[1] [{2}]
            %v, %i = top_k(%y, %k){{axis=1, largest={3}}}
            return %v, %i }})",
                                    n, type, k, largest),
                        0, {}, false);
}

TEST(Procedures, ElementsWrittenWhereDataSays) {
  for (const char* how : {"none", "add", "mul", "min", "max"})
    for (const int axis : {0, 1, -1})
      expect_compiles(fmt::format(R"(graph @g(%x: f32[4,5,6], %u: f32[3,5,6], %r: f32[3,5,6]) {{
          %i = cast(mul(%r, const f32[] 3)){{to=i64}}
          %s = scatter_elements(%x, %i, %u){{axis={}, reduction="{}"}}
          return %s, exp(%s) }})",
                                  axis, how),
                      1e-6, {}, false);
}

TEST(Procedures, SlicesWrittenWhereDataSays) {
  for (const char* how : {"none", "add", "max"})
    expect_compiles(fmt::format(R"(graph @g(%x: f32[4,5,6], %u: f32[2,3,6], %r: f32[2,3,2], %b: f32[7]) {{
        %i = cast(mul(%r, const f32[] 3)){{to=i64}}
        %s = scatter_nd(%x, %i, %u){{reduction="{0}"}}
        %t = scatter_nd(less(%b, const f32[] 0), const i64[2,1] [3, 3], const bool[2] [true, false]){{reduction="{0}"}}
        return %s, %t }})",
                                how),
                    1e-6, {}, false);
}

TEST(Procedures, PooledElementsGoBack) {
  expect_compiles(R"(graph @g(%x: f32[1,2,6,6]) {
      %v, %i = max_pool(%x){kernel_shape=[2,2], strides=[2,2]}
      return max_unpool(%v, %i){kernel_shape=[2,2], strides=[2,2]} })");
}

TEST(Procedures, DrawsAreTheSameInEveryRun) {
  expect_compiles(R"(graph @g(%x: f32[3,5]) {
      return add(%x, random_normal_like(%x){seed=3.0}), random_uniform(){shape=[2,70], low=-1.0} })");
}

TEST(Procedures, AnIndexOutOfRangeIsAnError) {
  const ir::Graph g = graph_of(R"(graph @g(%x: f32[4], %i: i64[2], %u: f32[2]) {
      return scatter_elements(%x, %i, %u) })");
  compile::ExecutableOptions options;
  options.lower.target = *codegen::host_target();
  const auto made = compile::Executable::build(g, ops::table(), options);
  ASSERT_TRUE(made.ok()) << made.error().to_string();
  auto runner = compile::Runner::make(*made, 1, 0);
  const Tensor x(DType::F32, {4}), u(DType::F32, {2});
  EXPECT_TRUE(runner->run({x, Tensor::ints({-4, 3}), u}).ok());
  for (const int64_t wrong : {-5, 4, 1 << 30}) {
    const auto got = runner->run({x, Tensor::ints({0, wrong}), u});
    ASSERT_FALSE(got.ok());
    EXPECT_NE(got.error().message.find("an index is out of range"), std::string::npos) << got.error().message;
  }
}

}  // namespace
}  // namespace isomer
