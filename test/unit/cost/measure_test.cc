#include "cost/measure.h"

#include <gtest/gtest.h>

#include "codegen/codegen.h"
#include "cost/test_bed.h"
#include "cost/tile_rate.h"
#include "cost/work.h"
#include "loop/intrinsics.h"

namespace isomer::cost {
namespace {

using loop::LoopKind;
using loop::Stmt;
using te::Expr;

// out[i + shift] = in[i] for i < n, over buffers of n elements: with a shift it writes behind its end.
loop::Function copy(int64_t n, int64_t shift, DType dtype = DType::F32) {
  loop::Function f;
  f.name = "copy";
  f.buffers = {{"in", dtype, {n}, loop::Scope::Argument, false}, {"out", dtype, {n}, loop::Scope::Argument, true}};
  f.arguments = 2;
  te::Node var{.kind = te::Kind::Var, .dtype = DType::I64};
  var.var = 0;
  var.var_name = "i";
  const Expr i = Expr::make(var);
  f.body = Stmt::loop(0, "i", Expr(n), LoopKind::Serial, Stmt::store(1, {i + Expr(shift)}, Expr::read(0, dtype, {i})));
  return f;
}

MeasureOptions quick() {
  MeasureOptions o;
  o.target = *codegen::host_target();
  o.seconds = 0.001;
  return o;
}

TEST(Measure, TimesKernelsTogether) {
  const loop::Function small = copy(64, 0), large = copy(1 << 18, 0);
  const auto times =
      measure({{&small, {Role::Value, Role::Value}, 0, 0}, {&large, {Role::Weight, Role::Value}, 0, 0}}, quick());
  ASSERT_EQ(times.size(), 2U);
  ASSERT_TRUE(times[0].ok() && times[1].ok());
  EXPECT_GT(times[0]->seconds, 0);
  EXPECT_GT(times[1]->seconds, times[0]->seconds);
  EXPECT_GE(times[0]->runs, 5U);
}

TEST(Measure, RedZonesCatchAKernelThatWritesOutside) {
  const loop::Function broken = copy(64, 8);
  const auto times = measure({{&broken, {Role::Value, Role::Value}, 0, 0}}, quick());
  ASSERT_FALSE(times[0].ok());
  EXPECT_EQ(times[0].error().code, "E-measure");
  EXPECT_NE(times[0].error().message.find("outside"), std::string::npos);
}

TEST(Measure, OtherElementTypes) {
  for (const DType t : {DType::F64, DType::F16, DType::I64, DType::I8, DType::Bool}) {
    const loop::Function f = copy(1000, 0, t);
    const auto times = measure({{&f, {Role::Value, Role::Value}, 0, 0}}, quick());
    EXPECT_TRUE(times[0].ok()) << name(t);
  }
}

TEST(Measure, TileRegistersHaveARateWhereTheMachineHasThem) {
  const loop::Target host = *codegen::host_target();
  const bool there = loop::split_product_for(host) != nullptr;
  EXPECT_EQ(tile_register_rate(host) > 0, there);
  loop::Target other = host;
  other.name = "x86-64-v4";
  EXPECT_EQ(tile_register_rate(other), 0);
  EXPECT_FALSE(uses_tile_registers(copy(8, 0)));
}

TEST(Measure, OutliersAreDropped) {
  std::vector<double> samples(50, 1.0);
  for (size_t i = 0; i < 20; ++i) samples[i] = 10.0 + static_cast<double>(i);
  EXPECT_EQ(summarise(samples).seconds, 1.0);
  EXPECT_EQ(summarise({}).runs, 0U);
}

TEST(Measure, WeightsHaveCopiesUpToThePool) {
  const loop::Function f = copy(1000, 0);
  const auto bed = TestBed::make(f, {Role::Weight, Role::Value}, {20000, 0, 16, 0, 1});
  ASSERT_TRUE(bed.ok());
  EXPECT_EQ((*bed)->copies(), 5U);
  EXPECT_NE((*bed)->argument(0, 0), (*bed)->argument(0, 1));
  EXPECT_EQ((*bed)->argument(1, 0), (*bed)->argument(1, 1));
  EXPECT_TRUE((*bed)->intact());
}

TEST(Work, IsCountedOnTheLoops) {
  const loop::Target target = *codegen::host_target();
  const Work w = work_of(copy(1000, 0), target);
  EXPECT_EQ(w.bytes, 8000);
  EXPECT_EQ(w.tile_flops, 0);
  EXPECT_GT(w.instructions, 1000);
  EXPECT_LT(w.instructions, 10000);
}

}  // namespace
}  // namespace isomer::cost
