#include "cost/task_shares.h"

#include <gtest/gtest.h>

namespace isomer::cost {
namespace {

using loop::LoopKind;
using loop::Stmt;
using te::Expr;

Expr variable(int number, const char* name) {
  te::Node var{.kind = te::Kind::Var, .dtype = DType::I64};
  var.var = number;
  var.var_name = name;
  return Expr::make(var);
}

// 48 rows of 64 floats, written by so many tasks: bands of rows, or blocks of columns of all rows.
loop::Function filling(int64_t tasks, bool by_rows) {
  loop::Function f;
  f.name = "fill";
  f.buffers = {{"out", DType::F32, {48, 64}, loop::Scope::Argument, true}};
  f.arguments = 1;
  const Expr t = variable(0, "t"), r = variable(1, "r"), c = variable(2, "c");
  const Expr rows(by_rows ? 48 / tasks : 48), columns(by_rows ? int64_t{64} : 64 / tasks);
  const Stmt store = by_rows ? Stmt::store(0, {t * rows + r, c}, Expr::real(DType::F32, 1))
                             : Stmt::store(0, {r, t * columns + c}, Expr::real(DType::F32, 1));
  f.body = Stmt::loop(0, "t", Expr(tasks), LoopKind::Parallel,
                      Stmt::loop(1, "r", rows, LoopKind::Serial, Stmt::loop(2, "c", columns, LoopKind::Serial, store)));
  return f;
}

constexpr uint64_t kRow = 64 * 4, kAll = 48 * kRow;

TEST(TaskShares, BandsOfRowsLieInOnePiece) {
  EXPECT_EQ(period_of_shares(filling(8, true), 0, 2), kAll);
  EXPECT_EQ(period_of_shares(filling(8, true), 0, 4), kAll);
}

TEST(TaskShares, BlocksOfColumnsAreSlicesOfEachRow) {
  EXPECT_EQ(period_of_shares(filling(8, false), 0, 2), kRow);
  EXPECT_EQ(period_of_shares(filling(8, false), 0, 4), kRow);
}

TEST(TaskShares, OneThreadHasAll) {
  EXPECT_EQ(period_of_shares(filling(8, false), 0, 1), kAll);
  EXPECT_EQ(period_of_shares(filling(1, false), 0, 2), kAll);
}

}  // namespace
}  // namespace isomer::cost
