#ifdef ISOMER_HAS_COMPILER
#include "driver/whole_runs.h"

#include <algorithm>
#include <chrono>
#include <numeric>
#include <optional>
#include <utility>

#include "codegen/codegen.h"
#include "compile/executable.h"
#include "cost/measure.h"
#include "ops/table.h"
#include "passes/manager.h"

namespace isomer::driver {
namespace {

constexpr int kTurnRuns = 2;      // that count, of each kind
constexpr double kTurnShare = 5;  // turns take one of so many seconds
constexpr double kTurnSeconds = 0.01;
constexpr double kLeastSeconds = 0.001;  // between two looks at the rate

using Clock = std::chrono::steady_clock;
double since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

struct Sample {
  double seconds = 0, rate = 0;
};

}  // namespace

struct WholeRuns::Impl {
  std::vector<Tensor> inputs, outputs;
  compile::Runner plain, profiled;
  loop::Target target;
  int threads = 1;
  std::vector<double> totals = {};  // of each step so far
  std::vector<Sample> whole = {};
  std::vector<std::vector<Sample>> steps = {};
  std::optional<Diagnostic> failed = {};
  std::optional<Clock::time_point> first = {};
  double spent = 0;
  size_t turns = 0;

  double rate() const { return cost::lowest_core_rate(cost::fastest_units(target), target, threads); }
  // Seconds of each step of the runs since the last call.
  std::vector<double> new_times() {
    std::vector<double> out;
    const std::vector<iso_profile> profile = profiled.profile();
    totals.resize(profile.size());
    for (size_t k = 0; k < profile.size(); ++k)
      out.push_back(profile[k].seconds - std::exchange(totals[k], profile[k].seconds));
    return out;
  }
  Expected<void> run();
  Expected<void> run_profiled();
};

WholeRuns::WholeRuns(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
WholeRuns::~WholeRuns() = default;

Expected<std::unique_ptr<WholeRuns>> WholeRuns::make(const ir::Graph& graph, std::vector<Tensor> inputs, int threads) {
  passes::Options fold;
  fold.limits.node_growth = fold.limits.total_growth = int64_t{1} << 32;
  ISOMER_TRY(const ir::Graph ready, passes::run_pipeline(graph, ops::table(), "inference", fold));
  compile::ExecutableOptions build;
  ISOMER_TRY(build.lower.target, codegen::host_target());
  ISOMER_TRY(const auto executable, compile::Executable::build(ready, ops::table(), build));
  ISOMER_TRY(compile::Runner plain, compile::Runner::make(executable, threads));
  ISOMER_TRY(compile::Runner profiled, compile::Runner::make(executable, threads, ISO_PROFILE));
  ISOMER_TRY(std::vector<Tensor> outputs, plain.run(inputs));
  ISOMER_CHECK_OK(profiled.run_into(inputs, outputs));
  auto impl = std::unique_ptr<Impl>(new Impl{std::move(inputs), std::move(outputs), std::move(plain),
                                             std::move(profiled), build.lower.target, threads});
  impl->steps.resize(impl->new_times().size());
  return std::unique_ptr<WholeRuns>(new WholeRuns(std::move(impl)));
}

// Of a model of microseconds many in a row: threads that nobody needs for a while fall asleep, and a look leaves its own bytes in
// the caches.
Expected<void> WholeRuns::Impl::run() {
  ISOMER_CHECK_OK(plain.run_into(inputs, outputs));
  double before = rate();
  for (int i = 0; i < kTurnRuns; ++i) {
    const auto start = Clock::now();
    int runs = 0;
    do ISOMER_CHECK_OK(plain.run_into(inputs, outputs));
    while (++runs, since(start) < kLeastSeconds);
    const double seconds = since(start) / runs, after = rate();
    whole.push_back({seconds, (std::exchange(before, after) + after) / 2});
  }
  return {};
}

Expected<void> WholeRuns::Impl::run_profiled() {
  ISOMER_CHECK_OK(profiled.run_into(inputs, outputs));
  new_times();
  double before = rate();
  for (int i = 0; i < kTurnRuns; ++i) {
    const auto start = Clock::now();
    int runs = 0;
    do ISOMER_CHECK_OK(profiled.run_into(inputs, outputs));
    while (++runs, since(start) < kLeastSeconds);
    const double after = rate(), mean = (std::exchange(before, after) + after) / 2;
    const std::vector<double> seconds = new_times();
    for (size_t k = 0; k < seconds.size(); ++k) steps[k].push_back({seconds[k] / runs, mean});
  }
  return {};
}

Expected<void> WholeRuns::turn() {
  const auto start = Clock::now();
  if (!impl_->first) impl_->first = start;
  do {
    ISOMER_CHECK_OK(impl_->run());
    ISOMER_CHECK_OK(impl_->run_profiled());
  } while (since(start) < kTurnSeconds);
  impl_->spent += since(start);
  ++impl_->turns;
  return {};
}

void WholeRuns::turn_when_due() {
  if (impl_->failed || (impl_->first && kTurnShare * impl_->spent > since(*impl_->first))) return;
  if (const auto done = turn(); !done.ok()) impl_->failed = done.error();
}

size_t WholeRuns::turns() const { return impl_->turns; }

double WholeRuns::Times::sum_of_steps() const { return std::accumulate(steps.begin(), steps.end(), 0.0); }

Expected<WholeRuns::Times> WholeRuns::times(const cost::Rates& usual, cost::CoreShare share) const {
  if (impl_->failed) return *impl_->failed;
  const double rate = usual.of(cost::fastest_units(impl_->target));
  const auto middle = [&](const std::vector<Sample>& samples) {
    std::vector<double> converted;
    for (const Sample& s : samples) converted.push_back(cost::at_usual_rate(s.seconds, s.rate, rate, share));
    return cost::summarise(std::move(converted)).seconds;
  };
  Times out;
  std::vector<double> clock;
  for (const Sample& s : impl_->whole) clock.push_back(s.seconds);
  if (clock.empty()) return out;
  out.fastest = *std::min_element(clock.begin(), clock.end());
  out.median = cost::summarise(std::move(clock)).seconds;
  out.seconds = middle(impl_->whole);
  for (const auto& samples : impl_->steps) out.steps.push_back(middle(samples));
  return out;
}

}  // namespace isomer::driver

#endif  // ISOMER_HAS_COMPILER
