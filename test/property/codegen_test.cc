// Native code against the plain evaluator: random expressions of all types, scalar and with lanes, computed in double.
#include <gtest/gtest.h>

#include <cmath>

#include "te/eval.h"
#include "te/print.h"
#include "test/narrower_targets.h"
#include "test/random_kernel.h"

namespace isomer::codegen {
namespace {

using loop::LoopKind;

std::vector<te::Array<te::DoubleDomain>> arrays(const std::vector<Tensor>& tensors) {
  std::vector<te::Array<te::DoubleDomain>> out;
  for (const Tensor& t : tensors) {
    te::Array<te::DoubleDomain> a{t.dtype(), t.dims(), {}, {}};
    for (int64_t i = 0; i < t.size(); ++i) {
      if (is_float(t.dtype()))
        a.reals.push_back(t.real(i));
      else
        a.ints.push_back(t.integer(i));
    }
    out.push_back(std::move(a));
  }
  return out;
}

void check(const RandomKernel& g, LoopKind kind, bool wide, const std::optional<loop::Target>& target) {
  te::DoubleDomain domain;
  auto expected = te::Evaluator<te::DoubleDomain>(domain).run(g.program, arrays(g.inputs));
  std::vector<Tensor> arguments = g.inputs;
  arguments.push_back(g.output);
  const KernelRun run = run_kernel(g.function(kind), arguments, {.wide = wide}, target);
  if (!expected.ok()) {
    EXPECT_GT(run.status, 0) << expected.error().message;
    return;
  }
  ASSERT_EQ(run.status, 0);
  const Tensor& got = run.arguments.back();
  for (int64_t i = 0; i < got.size(); ++i) {
    if (is_float(got.dtype())) {
      const double want = (*expected)[0].reals[static_cast<size_t>(i)], have = got.real(i);
      if (std::isnan(want) && std::isnan(have)) continue;
      if (want == have) continue;
      ASSERT_NEAR(have, want, 1e-9 * std::fabs(want)) << "element " << i;
    } else {
      ASSERT_EQ(got.integer(i), (*expected)[0].ints[static_cast<size_t>(i)]) << "element " << i;
    }
  }
}

void run_seeds(uint64_t first, int count, bool floats, const std::optional<loop::Target>& target = {}) {
  for (uint64_t seed = first; seed < first + static_cast<uint64_t>(count); ++seed) {
    RandomKernel g(seed, floats);
    g.make();
    for (const LoopKind kind : {LoopKind::Parallel, LoopKind::Vector, LoopKind::Unroll}) {
      if (kind == LoopKind::Unroll && seed % 8 != 0) continue;
      SCOPED_TRACE("seed " + std::to_string(seed) + ", loop " + std::to_string(static_cast<int>(kind)) + ": " +
                   te::print(g.body));
      check(g, kind, floats, target);
      if (::testing::Test::HasFailure()) return;
    }
  }
}

TEST(CodegenProperty, ExpressionsOfAllTypes) { run_seeds(1, 80, true); }
TEST(CodegenProperty, IntegersAsTheyShip) { run_seeds(10000, 80, false); }
TEST(CodegenProperty, OnNarrowerTargets) {
  testing::on_narrower_targets([](const loop::Target& target) { run_seeds(20000, 40, true, target); });
}

}  // namespace
}  // namespace isomer::codegen
