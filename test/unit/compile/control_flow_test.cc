// Loops, scans and branches compiled into one program: the interpreter's results, poisoned memory, any number of threads.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "compile/compose.h"
#include "test/unit/compile/compiled.h"

namespace isomer::compile {
namespace {

TEST(ControlFlow, AScanHandsStatesOnAndStacksResults) {
  expect_compiles(R"(graph @g(%x: f32[5,4], %s: f32[4], %w: f32[4,4]) {
    %a = exp(%x)
    %h, %ys = scan(%s, %a, %w){body=graph @b(%st: f32[4], %e: f32[4], %w: f32[4,4]) {
      %m = matmul(%st, %w)
      %n = add(%m, %e)
      %t = tanh(%n)
      return "next"=%t, "each"=%m }, num_scan_inputs=1, captures=1}
    %o = relu(%ys)
    return %h, %o
  })");
}

TEST(ControlFlow, AScanWalksAnyAxisEitherWay) {
  expect_compiles(R"(graph @g(%x: f32[3,6,2], %y: f32[6,3], %s: f32[3]) {
    %h, %a, %b = scan(%s, %x, %y){body=graph @b(%st: f32[3], %e: f32[3,2], %f: f32[3]) {
      %n = sub(%f, %st)
      %d = mul(%e, %e)
      return "next"=%n, "one"=%d, "two"=%st }, num_scan_inputs=2, scan_input_axes=[1, 0], scan_input_directions=[1, 0],
      scan_output_axes=[-1, 1], scan_output_directions=[0, 1]}
    return %h, %a, %b
  })");
}

TEST(ControlFlow, ALoopRunsAsOftenAsItIsTold) {
  for (const int most : {0, 1, 7})
    expect_compiles("graph @g(%x: f32[3,40]) { %m = const i64[] " + std::to_string(most) + R"(
      %l, %e = loop(%m, _, %x){body=graph @b(%i: i64[], %k: bool[], %v: f32[3,40]) {
        %f = cast(%i){to=f32}
        %z = add(%v, %f)
        return %k, "n"=%z, "each"=%f }}
      %r = relu(%l)
      return %l, %r, %e })");
}

TEST(ControlFlow, ALoopEndsWhenItsConditionDoes) {
  expect_compiles(R"(graph @g(%x: f32[4]) {
    %one = const f32[] 1
    %limit = const f32[] 300
    %l = loop(_, _, %x, %one, %limit){captures=2, body=graph @b(%i: i64[], %k: bool[], %v: f32[4], %one: f32[], %limit: f32[]) {
      %a = abs(%v)
      %d = add(%a, %a)
      %z = add(%d, %one)
      %t = reduce_sum(%z){keepdims=0}
      %c = less(%t, %limit)
      return %c, "n"=%z }}
    return %l
  })");
}

TEST(ControlFlow, AnIfRunsOneOfItsBranches) {
  for (const char* c : {"true", "false"})
    expect_compiles(std::string("graph @g(%x: f32[3,4], %i: i64[3]) { %c = const bool[] ") + c + R"(
      %n = identity(%c)
      %r, %q = if(%n, %x, %i){captures=2,
        then_branch=graph @t(%a: f32[3,4], %i: i64[3]) { %e = exp(%a) return "e"=%e, "a"=%a },
        else_branch=graph @e(%a: f32[3,4], %i: i64[3]) { %e = cos(%a) %f = mul(%e, %a) return "f"=%f, "e"=%e }}
      %s = add(%r, %q)
      return %s })");
}

TEST(ControlFlow, BodiesHoldBodies) {
  expect_compiles(R"(graph @g(%x: f32[2,3,4], %s: f32[4]) {
    %h, %y = scan(%s, %x){body=graph @outer(%st: f32[4], %e: f32[3,4]) {
      %g, %z = scan(%st, %e){body=graph @inner(%st: f32[4], %e: f32[4]) {
        %zero = const f32[] 0
        %t = reduce_sum(%e){keepdims=0}
        %c = less(%zero, %t)
        %n = if(%c, %st, %e){captures=2, then_branch=graph @t(%a: f32[4], %b: f32[4]) { %r = add(%a, %b) return %r },
          else_branch=graph @e(%a: f32[4], %b: f32[4]) { %r = sub(%a, %b) return %r }}
        return "n"=%n, "t"=%t }, num_scan_inputs=1}
      %q = tanh(%g)
      return "q"=%q, "z"=%z }, num_scan_inputs=1}
    return %h, %y, "again"=%y, "x"=%x
  })");
}

TEST(ControlFlow, ALargeGraphIsLoweredInPieces) {
  ExecutableOptions options;
  options.lower.whole = 10;
  std::string text = "graph @g(%x: f32[4,8], %w: f32[8,8]) { %v0 = exp(%x)\n";
  for (int i = 0; i < 60; i += 3)
    text +=
        fmt::format("%v{1} = matmul(%v{0}, %w) %v{2} = tanh(%v{1}) %v{3} = add(%v{2}, %x)\n", i, i + 1, i + 2, i + 3);
  expect_compiles(text + "return %v60, %v33, \"again\"=%v60 }", 1e-5, options);
}

TEST(ControlFlow, WhatCannotBeCompiledIsNamed) {
  const ir::Graph grows = graph_of(R"(graph @g(%x: f32[2], %m: i64[]) {
    %l = loop(%m, _, %x){body=graph @b(%i: i64[], %k: bool[], %v: f32["n"]) {
      %z = concat(%v, %v){axis=0}
      return %k, "n"=%z }}
    return %l })");
  const auto found = can_lower(grows, ops::table());
  ASSERT_FALSE(found.ok());
  EXPECT_NE(found.error().message.find("(loop)"), std::string::npos) << found.error().message;
}

TEST(ControlFlow, ALoopWithoutEndIsStopped) {
  const ir::Graph g = graph_of(R"(graph @g(%x: f32[]) {
    %l = loop(_, _, %x){body=graph @b(%i: i64[], %k: bool[], %v: f32[]) {
      %z = add(%v, %v)
      %c = equal(%i, %i)
      return %c, "n"=%z }}
    return %l })");
  ExecutableOptions options;
  options.lower.target = *codegen::host_target();
  const auto made = Executable::build(g, ops::table(), options);
  ASSERT_TRUE(made.ok()) << made.error().to_string();
  auto runner = Runner::make(*made, 1, 0);
  const auto got = runner->run(random_inputs(g, 1));
  ASSERT_FALSE(got.ok());
  EXPECT_NE(got.error().message.find("a loop runs more than 4194304 times"), std::string::npos) << got.error().message;
}

}  // namespace
}  // namespace isomer::compile
