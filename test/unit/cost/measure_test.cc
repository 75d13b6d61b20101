#include "cost/measure.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>

#include "codegen/codegen.h"
#include "cost/core_rate.h"
#include "cost/test_bed.h"
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

TEST(Measure, TheCoreHasARateOfTheUnitsThatTheMachineHas) {
  const loop::Target host = *codegen::host_target();
  const bool tiles = loop::split_product_for(host) != nullptr;
  EXPECT_EQ(core_rate(Units::Tiles, host) > 0, tiles);
  EXPECT_GT(core_rate(Units::Vectors, host), 0);
  EXPECT_EQ(fastest_units(host), tiles ? Units::Tiles : Units::Vectors);
  EXPECT_EQ(units_of(copy(8, 0), host), Units::Vectors);
  loop::Target other = host;
  other.name = "x86-64-v4";
  EXPECT_EQ(core_rate(Units::Tiles, other), 0);
  EXPECT_EQ(core_rate(Units::Vectors, other), 0);
}

TEST(Measure, OutliersAreDropped) {
  std::vector<double> samples(50, 1.0);
  for (size_t i = 0; i < 20; ++i) samples[i] = 10.0 + static_cast<double>(i);
  EXPECT_EQ(summarise(samples).seconds, 1.0);
  EXPECT_EQ(summarise({}).runs, 0U);
}

// So many moments at each of the rates of vectors.
std::vector<Rates> moments(std::initializer_list<std::pair<double, int>> rates) {
  std::vector<Rates> out;
  for (const auto& [rate, count] : rates)
    for (int i = 0; i < count; ++i) out.push_back({rate, 2 * rate});
  return out;
}

TEST(CoreRate, TheUsualRateIsWhatMostMomentsHave) {
  EXPECT_EQ(usual_rates(moments({{100, 90}, {50, 10}}), Units::Vectors).vectors, 100);
  const Rates shared = usual_rates(moments({{100, 25}, {52, 60}, {60, 15}}), Units::Vectors);
  EXPECT_EQ(shared.vectors, 52);
  EXPECT_EQ(shared.tiles, 104);  // of the same moments
  EXPECT_EQ(usual_rates({}, Units::Vectors).vectors, 0);
}

TEST(CoreRate, AHigherOneThatNearlyAsManyHaveComesFirst) {
  EXPECT_EQ(usual_rates(moments({{100, 45}, {52, 55}}), Units::Vectors).vectors, 100);
}

TEST(CoreRate, RatesNearTheUsualOneCountAsIt) {
  EXPECT_TRUE(is_usual(85, 100));
  EXPECT_TRUE(is_usual(120, 100));
  EXPECT_FALSE(is_usual(60, 100));
  EXPECT_FALSE(is_usual(170, 100));
}

// Beside a neighbour vectors lose less than tile registers do, and memory hardly anything: each part of a time loses what it does.
TEST(CoreRate, TimesAreConvertedByWhatTheyAreMadeOf) {
  const Rates usual = {100, 2000}, low = {50, 500};
  Mix mix;
  EXPECT_EQ(mix.slowdown(low, usual), 1);  // nothing is known
  mix.add({3, 0, 0});
  EXPECT_DOUBLE_EQ(mix.slowdown(low, usual), 2);
  mix.add({0, 1, 0});
  EXPECT_DOUBLE_EQ(mix.slowdown(low, usual), (3 * 2 + 1 * 4) / 4.0);
  mix.add({0, 0, 2});
  EXPECT_DOUBLE_EQ(mix.slowdown(low, usual), (3 * 2 + 1 * 4 + 2 * std::pow(2, 0.2)) / 6.0);
  EXPECT_DOUBLE_EQ(mix.scaled_to(3).slowdown(low, usual), mix.slowdown(low, usual));
  EXPECT_DOUBLE_EQ(mix.scaled_to(3).tiles, 0.5);
  EXPECT_EQ(Mix{}.scaled_to(3).seconds(), 0);
  EXPECT_EQ(mix.slowdown(low, {}), 1);
  EXPECT_EQ(mix.slowdown({}, usual), 1);
}

TEST(CoreRate, RunsAreConvertedStretchByStretch) {
  const Rates usual = {100, 2000}, low = {50, 500};
  const WatchedRun run = {{2, usual}, {5, low}, {1, {200, 2000}}};
  EXPECT_DOUBLE_EQ(seconds_of(run), 8);
  EXPECT_DOUBLE_EQ(at_usual_rates(run, usual, {1, 0, 0}), 2 + 2.5 + 2);
  EXPECT_DOUBLE_EQ(at_usual_rates(run, {}, {1, 0, 0}), 8);  // nothing is known
}

TEST(CoreRate, ASurveyHasAMomentPerMillisecondOfAllCores) {
  const std::vector<Rates> seen = survey(*codegen::host_target(), 2, 5);
  ASSERT_EQ(seen.size(), 5U);
  for (const Rates& m : seen) EXPECT_GT(m.vectors, 0);
}

constexpr Reach kNear{Reach::Kind::Near, 0};

TEST(TestBed, WhatComesOutOfAPoolHasCopiesUpToIt) {
  const loop::Function f = copy(1000, 0);
  TestBed::Shape shape;
  shape.reaches = {{Reach::Kind::Pool, 20000}, {Reach::Kind::Left, 0}};
  const auto bed = TestBed::make(f, shape);
  ASSERT_TRUE(bed.ok());
  EXPECT_EQ((*bed)->copies(), 5U);
  EXPECT_NE((*bed)->argument(0, 0), (*bed)->argument(0, 1));
  EXPECT_EQ((*bed)->argument(1, 0), (*bed)->argument(1, 1));
  EXPECT_TRUE((*bed)->intact());
}

// A result that was just touched and is larger than a near cache was behind it before.
TEST(TestBed, LargeValuesTakeTurnsToo) {
  const loop::Function f = copy(1000, 0);
  TestBed::Shape shape;
  shape.reaches = {kNear, kNear};
  shape.round = 40000;
  shape.traffic = 2000;
  const auto turns = TestBed::make(f, shape);
  ASSERT_TRUE(turns.ok());
  EXPECT_EQ((*turns)->copies(), 5U);
  EXPECT_NE((*turns)->argument(1, 0), (*turns)->argument(1, 1));
  shape.traffic = 8000;
  const auto stays = TestBed::make(f, shape);
  ASSERT_TRUE(stays.ok());
  EXPECT_EQ((*stays)->copies(), 1U);
}

TEST(TestBed, ArgumentsInOnePlaceShareABuffer) {
  const loop::Function f = copy(1000, 0);
  TestBed::Shape shape;
  shape.reaches = {kNear, kNear};
  shape.same = {0, 0};
  const auto bed = TestBed::make(f, shape);
  ASSERT_TRUE(bed.ok());
  EXPECT_EQ((*bed)->argument(0, 0), (*bed)->argument(1, 0));
}

// x = 2 x, in place.
loop::Function doubling() {
  loop::Function f = copy(64, 0);
  f.buffers = {{"x", DType::F32, {64}, loop::Scope::Argument, true}};
  f.arguments = 1;
  te::Node var{.kind = te::Kind::Var, .dtype = DType::I64};
  var.var = 0;
  var.var_name = "i";
  const Expr i = Expr::make(var), x = Expr::read(0, DType::F32, {i});
  f.body = Stmt::loop(0, "i", Expr(int64_t{64}), LoopKind::Serial, Stmt::store(0, {i}, x + x));
  return f;
}

// After two hundred runs without new contents there would be infinities, and no such kernel would be timed soundly.
TEST(TestBed, WhatAKernelWritesOverIsWrittenAnew) {
  const loop::Function f = doubling();
  TestBed::Shape shape;
  shape.reaches = {kNear};
  shape.round = 1 << 20;
  const auto bed = TestBed::make(f, shape);
  ASSERT_TRUE(bed.ok());
  auto* data = static_cast<float*>((*bed)->argument(0, 0));
  const float before = data[0];
  data[0] = 1e30F;
  (*bed)->begin();
  EXPECT_EQ(data[0], before);
  data[0] = 1e30F;
  void* arguments[] = {bed->get(), nullptr};
  EXPECT_EQ(TestBed::renew(arguments, 0, 1, nullptr), 0);
  EXPECT_EQ(data[0], before);
}

// Slices of each 64 bytes, pieces of the whole, or all of it by the first thread.
TEST(TestBed, ThreadsTouchWhatTheyTouchedLast) {
  const loop::Function f = doubling();
  const auto touched_by_second = [&](uint64_t period) {
    TestBed::Shape shape;
    shape.reaches = {{Reach::Kind::Near, 0, period}};
    shape.round = 1 << 20;
    shape.threads = 2;
    const auto bed = *TestBed::make(f, shape);
    bed->begin();
    auto* data = static_cast<float*>(bed->argument(0, 0));
    for (int i = 0; i < 64; ++i) data[i] = 1e30F;
    void* arguments[] = {bed.get(), nullptr};
    EXPECT_EQ(TestBed::renew(arguments, 1, 2, nullptr), 0);
    std::string out;
    for (int i = 0; i < 64; i += 8) out += data[i] == 1e30F ? '-' : 'x';
    return out;
  };
  EXPECT_EQ(touched_by_second(64), "-x-x-x-x");
  EXPECT_EQ(touched_by_second(Reach::kWhole), "----xxxx");
  EXPECT_EQ(touched_by_second(Reach::kFirst), "--------");
}

// Each task takes longer than what lies between two looks.
int32_t slow(void* const* arguments, int64_t begin, int64_t end, void* /*scratch*/) {
  const auto start = std::chrono::steady_clock::now();
  while (std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() < TestBed::kBetweenLooks) {
  }
  for (int64_t t = begin; t < end; ++t) static_cast<std::vector<int64_t>*>(arguments[0])->push_back(t);
  return begin == 2 ? 1 : 0;
}

TEST(TestBed, TheRateIsLookedAtBetweenTheTasksOfALongKernel) {
  const loop::Target host = *codegen::host_target();
  TestBed::Shape shape;
  shape.reaches = {kNear, kNear};
  shape.target = &host;
  const auto bed = TestBed::make(copy(1000, 0), shape);
  ASSERT_TRUE(bed.ok());
  std::vector<int64_t> done;
  void* renewed[] = {bed->get(), nullptr};
  void* watched[] = {bed->get(), reinterpret_cast<void*>(&slow), &done};
  (*bed)->begin();
  TestBed::renew(renewed, 0, 1, nullptr);
  EXPECT_EQ(TestBed::run_watched(watched, 0, 4, nullptr), 1);  // what one task says
  EXPECT_EQ(done, (std::vector<int64_t>{0, 1, 2, 3}));
  const auto when = (*bed)->circumstances();
  ASSERT_EQ(when.size(), 1U);
  ASSERT_EQ(when[0].looks.size(), 1U);  // thread
  const std::vector<TestBed::Look>& looks = when[0].looks[0];
  ASSERT_GE(looks.size(), 3U);
  ASSERT_LE(looks.size(), 4U);  // one before the first task where it was late
  double last = 0;
  for (const TestBed::Look& look : looks) {
    EXPECT_GE(look.at, last + TestBed::kBetweenLooks);
    EXPECT_GT(look.seconds, 0);
    EXPECT_GT(look.rates.vectors, 0);
    last = look.at + look.seconds;
  }
}

TEST(Measure, AKernelHasATimeInEveryState) {
  const loop::Function f = copy(1 << 14, 0);
  std::vector<Subject> subjects;
  for (const Reach& r :
       {kNear, Reach{Reach::Kind::Second, 1 << 20}, Reach{Reach::Kind::Pool, 1 << 22}, Reach{Reach::Kind::Far, 0}}) {
    Subject s{&f, {Role::Value, Role::Value}, 0, 0};
    s.context = {{r, kNear}, {0, 1}, 1 << 22, true};
    subjects.push_back(s);
  }
  for (const auto& t : measure(subjects, quick())) {
    ASSERT_TRUE(t.ok()) << t.error().to_string();
    EXPECT_GT(t->seconds, 0);
  }
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
