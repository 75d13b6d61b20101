// The pipeline keeps what random networks compute, and survives graphs of any kind.
//   ISOMER_SEED=n    starts from another seed; a failure prints the one to give
//   ISOMER_CASES=n   another number of cases
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>

#include "interp/interp.h"
#include "ir/text.h"
#include "passes/bisect.h"
#include "passes/manager.h"
#include "tensor/random_fill.h"
#include "test/random_graph.h"
#include "test/random_network.h"
#include "test/setting.h"

namespace isomer {
namespace {

bool is_tame(const std::vector<Tensor>& values) {
  for (const Tensor& t : values)
    for (int64_t i = 0; i < t.size(); ++i)
      if (!(std::abs(t.real(i)) < 1e6)) return false;
  return true;
}

// Largest difference relative to the largest magnitude, which counts as 1e-3 at least.
double distance(const Tensor& found, const Tensor& expected) {
  if (found.dims() != expected.dims()) return INFINITY;
  double largest = 1e-3, error = 0;
  for (int64_t k = 0; k < found.size(); ++k) {
    largest = std::max(largest, std::abs(expected.real(k)));
    const double d = std::abs(found.real(k) - expected.real(k));
    error = std::isnan(d) ? INFINITY : std::max(error, d);
  }
  return error / largest;
}

double distance(const std::vector<Tensor>& found, const std::vector<Tensor>& expected) {
  double worst = found.size() == expected.size() ? 0 : INFINITY;
  for (size_t i = 0; i < found.size() && i < expected.size(); ++i)
    worst = std::max(worst, distance(found[i], expected[i]));
  return worst;
}

// Whether values are rounded to f16, where the last bit of a float may decide.
bool is_half(const ir::Graph& g) {
  for (const ir::Node& n : g.nodes())
    if (n.types[0].dtype == DType::F16) return true;
  return false;
}

// Why the pipeline does not keep the network, or ""; `ran` counts the networks whose numbers can be compared.
std::string fault(uint64_t seed, size_t steps, const std::vector<passes::Step>& pipeline, uint64_t& ran) {
  const auto g = testing::RandomNetwork(seed, steps).finish();
  if (!g.ok()) return "no network: " + g.error().to_string();
  passes::Options options;
  options.verify = true;
  const auto r = passes::run(*g, ops::table(), pipeline, options);
  if (!r.ok()) return r.error().to_string() + "\n" + ir::print(*g);
  Random random(seed);
  std::vector<Tensor> inputs;
  for (const ir::Node& n : g->inputs()) inputs.push_back(random_tensor(DType::F32, n.types[0].shape.values(), random));
  interp::Options wide;
  wide.threads = 1;
  const auto rounded = interp::run(*g, ops::table(), inputs, wide);
  wide.wide = true;
  const auto expected = interp::run(*g, ops::table(), inputs, wide);
  // Quotients by nothing, and differences of which rounding alone makes something else, compare badly.
  if (!expected.ok() || !rounded.ok() || !is_tame(*expected) || distance(*rounded, *expected) > 1e-5) return {};
  ++ran;
  const auto found = interp::run(r->graph, ops::table(), inputs, wide);
  if (!found.ok()) return found.error().to_string() + "\n" + ir::print(*g) + ir::print(r->graph);
  const double error = distance(*found, *expected), tolerance = is_half(*g) ? 1e-2 : 1e-4;
  if (error <= tolerance) return {};
  const auto culprit = passes::bisect(*g, ops::table(), pipeline, options, inputs, tolerance);
  return "an output is off by " + std::to_string(error) + " after " +
         (culprit.ok() && *culprit ? (*culprit)->pass + " at " + (*culprit)->value : "some pass") + "\n" +
         ir::print(*g) + ir::print(r->graph);
}

void expect_kept(const char* pipeline) {
  const uint64_t seed = testing::setting("ISOMER_SEED", 20241115), cases = testing::setting("ISOMER_CASES", 1500);
  constexpr size_t kSteps = 14;
  const auto steps = passes::find_pipeline(pipeline);
  ASSERT_TRUE(steps.ok());
  std::printf("seed %llu, %llu cases\n", static_cast<unsigned long long>(seed), static_cast<unsigned long long>(cases));
  uint64_t ran = 0;
  for (uint64_t i = 0; i < cases; ++i) {
    if (fault(seed + i, kSteps, *steps, ran).empty()) continue;
    for (size_t n = 0; n <= kSteps; ++n)
      if (const std::string why = fault(seed + i, n, *steps, ran); !why.empty())
        FAIL() << "ISOMER_SEED=" << seed + i << " ISOMER_CASES=1, with " << n << " steps: " << why;
  }
  EXPECT_GT(ran, cases / 2);
}

TEST(Passes, InferenceKeepsRandomNetworks) { expect_kept("inference"); }
TEST(Passes, CompositesKeepRandomNetworks) { expect_kept("composites"); }

TEST(Passes, SurviveGraphsOfAnyKind) {
  const testing::RandomGraph random;
  const auto steps = passes::find_pipeline("inference");
  for (uint64_t seed = 1; seed <= 3000; ++seed) {
    const ir::Graph g = random.make(seed, 6);
    passes::Options options;
    options.verify = true;
    const auto r = passes::run(g, ops::table(), *steps, options);
    ASSERT_TRUE(r.ok()) << "seed " << seed << ": " << r.error().to_string() << "\n" << ir::print(g);
    ASSERT_EQ(r->graph.outputs().size(), g.outputs().size());
  }
}

}  // namespace
}  // namespace isomer
