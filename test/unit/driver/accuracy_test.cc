#include "driver/accuracy.h"

#include <gtest/gtest.h>

#include "base/random.h"
#include "driver/compile_module.h"
#include "driver/executor.h"
#include "driver/inputs.h"
#include "driver/module_file.h"
#include "interp/interp.h"
#include "ir/graph.h"
#include "ops/table.h"
#include "tensor/compare.h"

namespace isomer::driver {
namespace {

// A convolution that every target computes by a fast algorithm, and what its errors come to behind it.
ir::Graph convolution(double amplified) {
  ir::GraphBuilder b(ops::table(), "convolution");
  const ir::Value x = *b.input("x", Type(DType::F32, Shape{1, 64, 28, 28}));
  Tensor weights(DType::F32, {64, 64, 3, 3});
  Random random(5);
  for (int64_t i = 0; i < weights.size(); ++i) weights.set_real(i, random.uniform(-1, 1));
  ir::Value y = *b.add1("conv", {x, b.constant(weights)}, {{"pads", std::vector<int64_t>{1, 1, 1, 1}}});
  y = *b.add1("mul", {y, b.constant(Tensor::scalar(DType::F32, amplified))});
  b.output("y", *b.add1("sin", {y}));
  return *std::move(b).finish();
}

AccuracyFacts facts_of(const ir::Graph& g, Accuracy accuracy) {
  ExecutorOptions o;
  o.native.accuracy = accuracy;
  const auto executor = Executor::make(g, o);
  EXPECT_TRUE(executor.ok()) << executor.error().to_string();
  return executor->facts().native.accuracy;
}

double error_of(const ir::Graph& g, const std::vector<Tensor>& inputs, const std::vector<Tensor>& found) {
  interp::Options wide;
  wide.wide = true;
  const auto expected = interp::run(g, ops::table(), inputs, wide);
  EXPECT_TRUE(expected.ok());
  return compare(found[0], (*expected)[0]).error_of_largest;
}

TEST(RoundingChoice, GivesUpTheCoarserAlgorithmFirst) {
  const ir::Graph g = convolution(1);
  RoundingChoice choice(g, Accuracy::Checked);
  EXPECT_EQ(choice.allowed(), (compile::Rounding{true, true}));
  EXPECT_FALSE(choice.settled({true, true}));
  EXPECT_FALSE(choice.accept(2e-3));
  EXPECT_EQ(choice.allowed(), (compile::Rounding{false, true}));
  EXPECT_FALSE(choice.settled({false, true}));
  EXPECT_FALSE(choice.accept(1e-3));
  EXPECT_EQ(choice.allowed(), compile::Rounding());
  EXPECT_TRUE(choice.settled({}));
  EXPECT_EQ(choice.facts().given_up, 2e-3);
  EXPECT_EQ(choice.facts().difference, -1);
}

TEST(RoundingChoice, AsksForNoTrialWhereNothingIsAtStake) {
  const ir::Graph g = convolution(1);
  EXPECT_TRUE(RoundingChoice(g, Accuracy::Checked).settled({}));
  EXPECT_TRUE(RoundingChoice(g, Accuracy::Unchecked).settled({true, true}));
  EXPECT_FALSE(RoundingChoice(g, Accuracy::Strict).allowed().any());
}

TEST(RoundingChoice, KeepsWhatCannotBeTriedAndSaysSo) {
  RoundingChoice choice(convolution(1), Accuracy::Checked);
  EXPECT_FALSE(choice.settled({true, false}));
  EXPECT_TRUE(choice.accept(Diagnostic("E-run", "no memory")));
  EXPECT_NE(choice.facts().to_string().find("no memory"), std::string::npos);
}

TEST(Accuracy, FastAlgorithmsStayWhereErrorsStaySmall) {
  const ir::Graph g = convolution(0.01);
  const AccuracyFacts any = facts_of(g, Accuracy::Unchecked), tried = facts_of(g, Accuracy::Checked);
  EXPECT_EQ(tried.used, any.used);
  EXPECT_EQ(tried.difference >= 0, any.used.any());
  EXPECT_LE(tried.difference, tried.allowed);
  EXPECT_LT(tried.given_up, 0);
}

TEST(Accuracy, FastAlgorithmsAreGivenUpWhereErrorsGrow) {
  const ir::Graph g = convolution(1000);
  const AccuracyFacts any = facts_of(g, Accuracy::Unchecked), tried = facts_of(g, Accuracy::Checked);
  EXPECT_FALSE(tried.used.any());
  EXPECT_EQ(tried.given_up > tried.allowed, any.used.any());
}

TEST(Accuracy, AModuleIsTriedLikeWhatRunsInTheProcess) {
  const ir::Graph g = convolution(20);
  const std::string path = ::testing::TempDir() + "accuracy_test.so";
  const auto report = compile_module({g}, {}, path);
  ASSERT_TRUE(report.ok()) << report.error().to_string();
  EXPECT_FALSE(report->accuracy.used.any());
  const auto file = ModuleFile::open(path);
  ASSERT_TRUE(file.ok()) << file.error().to_string();
  auto run = ModuleRun::make(*file, 1);
  const auto inputs = make_inputs(g, {});
  ASSERT_TRUE(run.ok() && inputs.ok());
  const auto found = run->run(*inputs);
  ASSERT_TRUE(found.ok());
  CompileOptions unchecked;
  unchecked.accuracy = Accuracy::Unchecked;
  const std::string fast_path = ::testing::TempDir() + "accuracy_fast_test.so";
  const auto fast = compile_module({g}, unchecked, fast_path);
  ASSERT_TRUE(fast.ok());
  const auto fast_file = ModuleFile::open(fast_path);
  auto fast_run = ModuleRun::make(*fast_file, 1);
  const auto fast_found = fast_run->run(*inputs);
  ASSERT_TRUE(fast_found.ok());
  if (fast->accuracy.used.any()) {
    EXPECT_LT(error_of(g, *inputs, *found), error_of(g, *inputs, *fast_found));
  }
  std::remove(path.c_str());
  std::remove(fast_path.c_str());
}

TEST(Accuracy, CodeForAnotherArchitectureIsNotTried) {
  CompileOptions o;
#if defined(__x86_64__)
  o.targets = {"aarch64"};
#else
  o.targets = {"x86-64-v3"};
#endif
  const std::string path = ::testing::TempDir() + "accuracy_foreign_test.so";
  const auto report = compile_module({convolution(1000)}, o, path);
  ASSERT_TRUE(report.ok()) << report.error().to_string();
  EXPECT_EQ(report->accuracy.not_tried.empty(), !report->accuracy.used.any());
  std::remove(path.c_str());
}

}  // namespace
}  // namespace isomer::driver
