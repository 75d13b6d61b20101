#ifdef ISOMER_HAS_COMPILER
#include "driver/whole_runs.h"

#include <algorithm>
#include <chrono>
#include <cmath>
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
constexpr double kLeastSeconds = 0.001;        // of a sample
constexpr size_t kLeastSure = 8, kSurest = 3;  // runs that count: one of three, and eight at least

using Clock = std::chrono::steady_clock;

// Seconds on the clock, and at the usual rates.
struct Converted {
  double clock = 0, usual = 0;
  double distance() const { return std::abs(std::log(clock / usual)); }
};

// Other rates tell in part what a run would take at the usual ones: the runs that were nearest to them count.
double middle_of_surest(std::vector<Converted> runs) {
  std::stable_sort(runs.begin(), runs.end(),
                   [](const Converted& a, const Converted& b) { return a.distance() < b.distance(); });
  runs.resize(std::min(runs.size(), std::max(kLeastSure, runs.size() / kSurest)));
  std::vector<double> seconds;
  for (const Converted& r : runs) seconds.push_back(r.usual);
  return cost::summarise(std::move(seconds)).seconds;
}

// Of each step: its own kernel's, or that of all where the kernels are those of another plan.
std::vector<cost::Mix> mixes(const std::vector<cost::KernelPrice>& kernels, size_t steps) {
  std::vector<cost::Mix> own(kernels.size());
  cost::Mix all;
  for (size_t i = 0; i < kernels.size(); ++i) {
    own[i] = kernels[i].mix;
    all.add(own[i]);
  }
  return kernels.size() == steps ? own : std::vector<cost::Mix>(steps, all);
}

}  // namespace

struct WholeRuns::Impl {
  struct Samples {
    std::vector<cost::WatchedRun> whole = {};
    std::vector<cost::WatchedRun> steps = {};  // by step of the model, a stretch for each sample
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
  std::vector<cost::Mix> by_stretch(const std::vector<cost::Mix>& steps, size_t stretches) const;
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
    cost::WatchedRun run = watch->stop(count);
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
    std::vector<cost::WatchedRun>& steps = (stolen.grew() ? stolen_from : undisturbed).steps;
    const std::vector<double> seconds = new_times();
    const std::vector<cost::Rates>& rates = watch->rates();  // of several runs those of the first stand for all
    size_t look = 0, step = 0;
    for (size_t s = 0; s < seconds.size(); ++s)
      if (is_look(s))
        ++look;
      else
        steps[step++].push_back({seconds[s] / count, cost::mean_of({rates[look], rates[look + 1]})});
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

// What runs between two looks of one run; where a sample has several in a row, all of it in each.
std::vector<cost::Mix> WholeRuns::Impl::by_stretch(const std::vector<cost::Mix>& steps, size_t stretches) const {
  std::vector<cost::Mix> out(1);
  cost::Mix all;
  for (size_t s = 0, step = 0; step < steps.size(); ++s)
    if (is_look(s))
      out.emplace_back();
    else
      all.add(steps[step]), out.back().add(steps[step++]);
  return out.size() == stretches ? out : std::vector<cost::Mix>(stretches, all);
}

Expected<WholeRuns::Times> WholeRuns::times(const cost::Rates& usual,
                                            const std::vector<cost::KernelPrice>& kernels) const {
  if (impl_->failed) return *impl_->failed;
  // Runs while the host of a virtual machine did something else count where there are no others.
  const Impl::Samples &good = impl_->undisturbed, &bad = impl_->stolen_from;
  std::vector<double> clock;
  std::vector<Converted> whole;
  const std::vector<cost::Mix> of_step = mixes(kernels, good.steps.size());
  for (const cost::WatchedRun& run : good.whole.empty() ? bad.whole : good.whole) {
    clock.push_back(seconds_of(run));
    const std::vector<cost::Mix> of_stretch = impl_->by_stretch(of_step, run.size());
    double seconds = 0;
    for (size_t i = 0; i < run.size(); ++i) seconds += at_usual_rates({run[i]}, usual, of_stretch[i]);
    whole.push_back({clock.back(), seconds});
  }
  Times out;
  if (clock.empty()) return out;
  out.fastest = *std::min_element(clock.begin(), clock.end());
  out.median = cost::summarise(std::move(clock)).seconds;
  out.seconds = middle_of_surest(std::move(whole));
  for (size_t i = 0; i < good.steps.size(); ++i) {
    std::vector<Converted> step;
    for (const cost::WatchedStretch& s : good.steps[i].empty() ? bad.steps[i] : good.steps[i])
      step.push_back({s.seconds, cost::at_usual_rates({s}, usual, of_step[i])});
    out.steps.push_back(middle_of_surest(std::move(step)));
  }
  return out;
}

}  // namespace isomer::driver

#endif  // ISOMER_HAS_COMPILER
