// Steps that write over what they read for the last time: when they may, and that nothing else changes.
#include "compile/in_place.h"

#include "compile/lower.h"
#include "loop/print.h"
#include "test/unit/compile/compiled.h"

namespace isomer {
namespace {

using compile::may_share;
using loop::LoopKind;
using loop::Stmt;
using te::Expr;

Expr var(int id) { return Expr(te::Axis{id, "v" + std::to_string(id), Dim(0)}); }
Expr at(int buffer, Expr index) { return Expr::read(buffer, DType::F32, {std::move(index)}); }

// Buffer 0 is read, 1 is written, both of 24 elements; 2 is a small table.
loop::Function function(Stmt body) {
  loop::Function f{"f", {}, 3, std::move(body), {}};
  f.buffers = {{"x", DType::F32, {24}, loop::Scope::Argument, false},
               {"y", DType::F32, {24}, loop::Scope::Argument, true},
               {"t", DType::F32, {4}, loop::Scope::Argument, false}};
  return f;
}

Stmt loops(Expr outer, Expr inner, Stmt body) {
  return Stmt::loop(0, "i", std::move(outer), LoopKind::Parallel,
                    Stmt::loop(1, "j", std::move(inner), LoopKind::Vector, std::move(body)));
}

TEST(InPlace, OneStatementThatReadsWhereItWrites) {
  const Expr i = var(0) * 4 + var(1);
  loop::Function f = function(loops(6, 4, Stmt::store(1, {i}, at(0, i) * at(0, i) + at(2, var(1)))));
  ASSERT_TRUE(may_share(f, 0, 1));
  EXPECT_FALSE(may_share(f, 2, 1));  // another size
  f = compile::sharing(std::move(f), 0, 1);
  EXPECT_TRUE(loop::verify(f).ok()) << loop::print(f);
  EXPECT_EQ(f.arguments, 2);
  EXPECT_EQ(loop::print(f).find("x["), std::string::npos) << loop::print(f);
}

TEST(InPlace, WhatIsReadElsewhereOrTwiceStays) {
  const Expr i = var(0) * 4 + var(1), back = Expr(23) - i;
  const auto refuses = [&](Stmt body) {
    const loop::Function f = function(std::move(body));
    EXPECT_FALSE(may_share(f, 0, 1)) << loop::print(f);
  };
  refuses(loops(6, 4, Stmt::store(1, {i}, at(0, back))));             // at another place
  refuses(loops(6, 4, Stmt::store(1, {i}, at(0, i) + at(0, back))));  // also at another place
  refuses(loops(6, 4, Stmt::store(1, {i}, at(0, i), te::Combiner::Sum)));
  refuses(loops(6, 4, Stmt::store(1, {i}, at(0, i) + at(1, i))));  // the old contents are asked for
  refuses(loops(6, 4, Stmt::branch(at(0, i) < Expr::real(DType::F32, 0), Stmt::store(1, {i}, at(2, var(1))))));
  // A second sweep, as of a last vector that overlaps the one before it, finds what the first one wrote.
  const Expr late = var(0) * 4 + var(1) - var(0);
  refuses(loops(7, 4, Stmt::store(1, {late}, at(0, late))));
  refuses(Stmt::seq({loops(6, 4, Stmt::store(1, {i}, at(2, var(1)))),
                     Stmt::loop(2, "k", 1, LoopKind::Serial, Stmt::store(1, {var(2)}, at(0, var(2))))}));
}

compile::Lowered lowered(const std::string& text, bool in_place) {
  compile::LowerOptions options;
  options.target = *codegen::host_target();
  options.in_place = in_place;
  auto out = compile::lower(graph_of(text), ops::table(), options);
  EXPECT_TRUE(out.ok()) << (out.ok() ? "" : out.error().to_string());
  return out.ok() ? *std::move(out) : compile::Lowered();
}

// Values that two others read are kernels of their own, so something is left to be written over.
const char* const kChain = R"(graph @g(%x: f32[64,64], %w: f32[64,64]) {
  %a = matmul(%x, %w)
  %b = matmul(%a, %w)
  %c = relu(add(matmul(%b, %w), %a))
  %d = matmul(%c, %w)
  return add(matmul(%d, %w), %c), reduce_sum(%d, [0]) })";
const char* const kNetwork = R"(graph @g(%x: f32[1,32,12,12], %w: f32[32,32,3,3], %v: f32[32,32,1,1]) {
  %a = relu(conv(%x, %v))
  %b = relu(conv(%a, %w){pads=[1,1,1,1]})
  %c = relu(add(conv(%b, %v), %a))
  %d = relu(conv(%c, %w){pads=[1,1,1,1]})
  %e = add(conv(%d, %v), %c)
  return softmax(global_average_pool(%e)){axis=1}, max_pool(%e){kernel_shape=[2,2]} })";

size_t arguments(const compile::Plan& plan) {
  size_t count = 0;
  for (const compile::Step& s : plan.steps) count += s.arguments.size();
  return count;
}

TEST(InPlace, ResidualsAreWrittenOver) {
  EXPECT_LT(lowered(kChain, true).plan.arena_bytes, lowered(kChain, false).plan.arena_bytes);
  for (const char* text : {kChain, kNetwork}) {
    const compile::Lowered apart = lowered(text, false), over = lowered(text, true);
    EXPECT_LT(arguments(over.plan), arguments(apart.plan));
    EXPECT_LE(over.plan.arena_bytes, apart.plan.arena_bytes);
  }
}

TEST(InPlace, NothingElseChanges) {
  for (const char* text : {kChain, kNetwork}) {
    expect_compiles(text);
    compile::ExecutableOptions apart;
    apart.lower.in_place = false;
    expect_compiles(text, 1e-5, apart);
  }
}

// The caller's buffers are his: an input stays as it was, and an output that is read later is no place for another.
TEST(InPlace, InputsAndOutputsStay) {
  expect_compiles(R"(graph @g(%x: f32[40], %y: f32[40]) {
    %a = add(%x, %y)
    %b = softmax(%a)
    return %a, %b, softmax(add(%b, %a)), mul(%x, %x) })");
}

}  // namespace
}  // namespace isomer
