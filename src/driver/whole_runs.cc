#ifdef ISOMER_HAS_COMPILER
#include "driver/whole_runs.h"

#include <algorithm>
#include <chrono>
#include <numeric>
#include <optional>
#include <utility>

#include "base/clock_seconds.h"
#include "base/stolen_time.h"
#include "codegen/codegen.h"
#include "compile/executable.h"
#include "cost/measure.h"
#include "driver/core_watch.h"
#include "ops/table.h"
#include "passes/manager.h"

namespace isomer::driver {
namespace {

constexpr int kTurnSamples = 2;   // of each kind
constexpr double kTurnShare = 5;  // turns take one of so many seconds
constexpr double kLeastTurnSeconds = 0.01;
constexpr double kLeastSeconds = 0.001;  // of a sample

using Clock = std::chrono::steady_clock;

}  // namespace

struct WholeRuns::Impl {
  struct Samples {
    std::vector<cost::Stretches> whole = {};
    std::vector<cost::Stretches> steps = {};  // by step of the model, a stretch for each sample
  };

  std::unique_ptr<CoreWatch> watch;
  std::shared_ptr<const compile::Executable> executable;
  std::vector<Tensor> inputs, outputs;
  compile::Runner plain, profiled;
  std::vector<double> totals = {};  // of each step so far
  Samples undisturbed = {}, stolen_from = {};
  std::optional<Diagnostic> failed = {};
  std::optional<Clock::time_point> first = {};
  double spent = 0;
  size_t turns = 0;

  bool is_look(size_t step) const { return executable->plan().steps[step].function == compile::kWatchStep; }
  // Seconds of each step of the runs since the last call, looks among them.
  std::vector<double> new_times() {
    std::vector<double> out;
    const std::vector<iso_profile> profile = profiled.profile();
    totals.resize(profile.size());
    for (size_t k = 0; k < profile.size(); ++k)
      out.push_back(profile[k].seconds - std::exchange(totals[k], profile[k].seconds));
    return out;
  }
  Expected<int> runs(compile::Runner& runner);
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
  auto watch = std::make_unique<CoreWatch>(build.lower.target, threads);
  build.watch = watch->watch();
  ISOMER_TRY(const auto executable, compile::Executable::build(ready, ops::table(), build));
  ISOMER_TRY(compile::Runner plain, compile::Runner::make(executable, threads));
  ISOMER_TRY(compile::Runner profiled, compile::Runner::make(executable, threads, ISO_PROFILE));
  ISOMER_TRY(std::vector<Tensor> outputs, plain.run(inputs));
  ISOMER_CHECK_OK(profiled.run_into(inputs, outputs));
  auto impl = std::unique_ptr<Impl>(new Impl{std::move(watch), executable, std::move(inputs), std::move(outputs),
                                             std::move(plain), std::move(profiled)});
  for (size_t s = 0, count = impl->new_times().size(); s < count; ++s)
    if (!impl->is_look(s)) impl->undisturbed.steps.emplace_back(), impl->stolen_from.steps.emplace_back();
  return std::unique_ptr<WholeRuns>(new WholeRuns(std::move(impl)));
}

// Of a model of microseconds many in a row: threads that nobody needs for a while fall asleep, and a look leaves its own bytes in
// the caches.
Expected<int> WholeRuns::Impl::runs(compile::Runner& runner) {
  watch->start();
  int count = 0;
  const auto start = Clock::now();
  do ISOMER_CHECK_OK(runner.run_into(inputs, outputs));
  while (++count, seconds_since(start) < kLeastSeconds);
  return count;
}

Expected<void> WholeRuns::Impl::run() {
  ISOMER_CHECK_OK(plain.run_into(inputs, outputs));
  watch->look();
  StolenTime stolen;
  for (int i = 0; i < kTurnSamples; ++i) {
    ISOMER_TRY(const int count, runs(plain));
    cost::Stretches run = watch->stop(count);
    (stolen.grew() ? stolen_from : undisturbed).whole.push_back(std::move(run));
  }
  return {};
}

Expected<void> WholeRuns::Impl::run_profiled() {
  ISOMER_CHECK_OK(profiled.run_into(inputs, outputs));
  new_times();
  watch->look();
  StolenTime stolen;
  for (int i = 0; i < kTurnSamples; ++i) {
    ISOMER_TRY(const int count, runs(profiled));
    watch->stop();
    std::vector<cost::Stretches>& steps = (stolen.grew() ? stolen_from : undisturbed).steps;
    const std::vector<double> seconds = new_times();
    const std::vector<double>& rates = watch->rates();  // of several runs those of the first stand for all
    size_t look = 0, step = 0;
    for (size_t s = 0; s < seconds.size(); ++s)
      if (is_look(s))
        ++look;
      else
        steps[step++].push_back({seconds[s] / count, (rates[look] + rates[look + 1]) / 2});
  }
  return {};
}

Expected<void> WholeRuns::turn() {
  const auto start = Clock::now();
  if (!impl_->first) impl_->first = start;
  do {
    ISOMER_CHECK_OK(impl_->run());
    ISOMER_CHECK_OK(impl_->run_profiled());
  } while (seconds_since(start) < kLeastTurnSeconds);
  impl_->spent += seconds_since(start);
  ++impl_->turns;
  return {};
}

void WholeRuns::turn_when_due() {
  if (impl_->failed || (impl_->first && kTurnShare * impl_->spent > seconds_since(*impl_->first))) return;
  if (const auto done = turn(); !done.ok()) impl_->failed = done.error();
}

size_t WholeRuns::turns() const { return impl_->turns; }

double WholeRuns::Times::sum_of_steps() const { return std::accumulate(steps.begin(), steps.end(), 0.0); }

Expected<WholeRuns::Times> WholeRuns::times(const cost::Rates& usual, cost::CoreShare share) const {
  if (impl_->failed) return *impl_->failed;
  const double rate = usual.of(impl_->watch->units());
  // Runs while the host of a virtual machine did something else count where there are no others.
  const Impl::Samples &good = impl_->undisturbed, &bad = impl_->stolen_from;
  std::vector<double> clock, whole;
  for (const cost::Stretches& run : good.whole.empty() ? bad.whole : good.whole) {
    clock.push_back(seconds_of(run));
    whole.push_back(at_usual_rate(run, rate, share));
  }
  Times out;
  if (clock.empty()) return out;
  out.fastest = *std::min_element(clock.begin(), clock.end());
  out.median = cost::summarise(std::move(clock)).seconds;
  out.seconds = cost::summarise(std::move(whole)).seconds;
  for (size_t i = 0; i < good.steps.size(); ++i) {
    std::vector<double> seconds;
    for (const cost::Stretch& s : good.steps[i].empty() ? bad.steps[i] : good.steps[i])
      seconds.push_back(cost::at_usual_rate(s.seconds, s.rate, rate, share));
    out.steps.push_back(cost::summarise(std::move(seconds)).seconds);
  }
  return out;
}

}  // namespace isomer::driver

#endif  // ISOMER_HAS_COMPILER
