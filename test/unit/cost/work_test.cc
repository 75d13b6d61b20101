// What a kernel has to do, counted on its loops.
#include "cost/work.h"

#include <gtest/gtest.h>

namespace isomer::cost {
namespace {

using loop::LoopKind;
using loop::Stmt;
using te::Expr;

constexpr int kInputs = 0, kFactors = 1, kTotals = 2, kRowAxis = 0, kLaneAxis = 1;

// sums[lane (+ 16 row)] += input[row] * weights[lane] for 10 rows.
loop::Function row_sums(loop::Scope scope, bool one_for_each_row) {
  loop::Function f;
  f.name = "f";
  f.buffers = {{"input", DType::F32, {10}, loop::Scope::Argument, false},
               {"weights", DType::F32, {16}, loop::Scope::Argument, false},
               {"sums", DType::F32, {160}, scope, true}};
  f.arguments = scope == loop::Scope::Argument ? 3 : 2;
  const Expr row(te::Axis{kRowAxis, "row", Dim(10)}), lane(te::Axis{kLaneAxis, "lane", Dim(16)});
  const Expr at = one_for_each_row ? lane + row * Expr(16) : lane;
  Stmt s = Stmt::store(kTotals, {at}, Expr::read(kInputs, DType::F32, {row}) * Expr::read(kFactors, DType::F32, {lane}),
                       te::Combiner::Sum);
  s = Stmt::loop(kLaneAxis, "lane", Expr(16), LoopKind::Vector, s);
  f.body = Stmt::loop(kRowAxis, "row", Expr(10), LoopKind::Serial, s);
  return f;
}

double instructions(loop::Scope scope, bool one_for_each_row) {
  return work_of(row_sums(scope, one_for_each_row), *loop::parse_target("x86-64-v4")).instructions;
}

// The loop, a load and a product with the other operand out of memory.
TEST(Work, ASumInARegisterTakesItsProductsAsTheyCome) { EXPECT_EQ(instructions(loop::Scope::Local, false), 10 * 3); }

// The loop, two loads, the product; the sum is loaded, added to and stored.
TEST(Work, ASumInMemoryIsLoadedAndStored) {
  EXPECT_EQ(instructions(loop::Scope::Argument, false), 10 * 7);
  EXPECT_EQ(instructions(loop::Scope::Local, true), 10 * 7);  // at a place that only the run knows
}

}  // namespace
}  // namespace isomer::cost
