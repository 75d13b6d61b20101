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

constexpr int kTurnRuns = 2;      // samples of each kind
constexpr double kTurnShare = 5;  // turns take one of so many seconds
constexpr double kTurnSeconds = 0.01;
constexpr double kLeastSeconds = 0.001;  // of a sample
constexpr double kWatchSeconds = 0.002;  // between two looks at the rate in a long run

using Clock = std::chrono::steady_clock;
double since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// A part of a run, and the rate that the core had meanwhile.
struct Part {
  double seconds = 0, rate = 0;
};
using Sample = std::vector<Part>;
double sum(const Sample& sample) {
  return std::accumulate(sample.begin(), sample.end(), 0.0, [](double s, const Part& p) { return s + p.seconds; });
}

struct Look {
  double begin = 0, end = 0, rate = 0;  // when, in seconds since the watch began
};

// Looks at the cores' rates between the steps of a run: what a neighbour takes changes within milliseconds.
class CoreWatch {
 public:
  CoreWatch(const loop::Target& target, int threads)
      : target_(target), units_(cost::fastest_units(target)), looks_(static_cast<size_t>(threads)) {}

  compile::Watch watch() { return {&CoreWatch::look, this, static_cast<int>(looks_.size()), kWatchSeconds}; }
  double now() const { return since(begin_); }
  double rate() const { return cost::lowest_core_rate(units_, target_, static_cast<int>(looks_.size())); }

  // Those since the last call, of all threads: from the first begin to the last end, the lowest rate.
  std::vector<Look> take() {
    std::vector<Look> out = std::exchange(looks_[0], {});
    for (size_t t = 1; t < looks_.size(); ++t) {
      const std::vector<Look> others = std::exchange(looks_[t], {});
      for (size_t i = 0; i < std::min(out.size(), others.size()); ++i)
        out[i] = {std::min(out[i].begin, others[i].begin), std::max(out[i].end, others[i].end),
                  std::min(out[i].rate, others[i].rate)};
    }
    return out;
  }

 private:
  static int32_t look(void* const* arguments, int64_t begin, int64_t end, void* /*scratch*/) {
    auto* self = static_cast<CoreWatch*>(arguments[0]);
    for (auto t = static_cast<size_t>(begin); t < static_cast<size_t>(end); ++t) {
      const double start = self->now();
      const double rate = cost::core_rate(self->units_, self->target_);
      self->looks_[t].push_back({start, self->now(), rate});
    }
    return 0;
  }

  const loop::Target target_;
  const cost::Units units_;
  const Clock::time_point begin_ = Clock::now();
  std::vector<std::vector<Look>> looks_;  // by task, which is a thread
};

}  // namespace

struct WholeRuns::Impl {
  std::unique_ptr<CoreWatch> watch;
  std::shared_ptr<const compile::Executable> executable;
  std::vector<Tensor> inputs, outputs;
  compile::Runner plain, profiled;
  cost::Units units;
  std::vector<double> totals = {};  // of each step so far
  std::vector<Sample> whole = {};
  std::vector<std::vector<Part>> steps = {};  // by step of the model
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
  auto impl =
      std::unique_ptr<Impl>(new Impl{std::move(watch), executable, std::move(inputs), std::move(outputs),
                                     std::move(plain), std::move(profiled), cost::fastest_units(build.lower.target)});
  for (size_t s = 0; s < impl->new_times().size(); ++s)
    if (!impl->is_look(s)) impl->steps.emplace_back();
  return std::unique_ptr<WholeRuns>(new WholeRuns(std::move(impl)));
}

// Of a model of microseconds many in a row: threads that nobody needs for a while fall asleep, and a look leaves its own bytes in
// the caches.
Expected<int> WholeRuns::Impl::runs(compile::Runner& runner) {
  watch->take();
  int count = 0;
  const auto start = Clock::now();
  do ISOMER_CHECK_OK(runner.run_into(inputs, outputs));
  while (++count, since(start) < kLeastSeconds);
  return count;
}

Expected<void> WholeRuns::Impl::run() {
  ISOMER_CHECK_OK(plain.run_into(inputs, outputs));
  double rate = watch->rate();
  for (int i = 0; i < kTurnRuns; ++i) {
    double at = watch->now();
    ISOMER_TRY(const int count, runs(plain));
    const double end = watch->now(), last = watch->rate();
    std::vector<Look> looks = watch->take();
    looks.push_back({end, end, last});
    Sample sample;
    for (const Look& look : looks) {
      sample.push_back({(look.begin - at) / count, (std::exchange(rate, look.rate) + look.rate) / 2});
      at = look.end;
    }
    whole.push_back(std::move(sample));
  }
  return {};
}

Expected<void> WholeRuns::Impl::run_profiled() {
  ISOMER_CHECK_OK(profiled.run_into(inputs, outputs));
  new_times();
  double rate = watch->rate();
  for (int i = 0; i < kTurnRuns; ++i) {
    ISOMER_TRY(const int count, runs(profiled));
    const double last = watch->rate();
    const std::vector<double> seconds = new_times();
    const std::vector<Look> looks = watch->take();
    // Of several runs the looks of the last one stand for all.
    const auto in_run =
        static_cast<size_t>(std::count_if(executable->plan().steps.begin(), executable->plan().steps.end(),
                                          [](const compile::Step& s) { return s.function == compile::kWatchStep; }));
    size_t next = looks.size() - std::min(looks.size(), in_run), step = 0;
    for (size_t s = 0; s < seconds.size(); ++s) {
      if (is_look(s)) {
        rate = looks[next++].rate;
        continue;
      }
      const double after = next < looks.size() ? looks[next].rate : last;
      steps[step++].push_back({seconds[s] / count, (rate + after) / 2});
    }
    rate = last;
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
  const auto converted = [&](const Part& p) {
    return cost::at_usual_rate(p.seconds, p.rate, usual.of(impl_->units), share);
  };
  std::vector<double> clock, whole;
  for (const Sample& s : impl_->whole) {
    clock.push_back(sum(s));
    whole.push_back(0);
    for (const Part& p : s) whole.back() += converted(p);
  }
  Times out;
  if (clock.empty()) return out;
  out.fastest = *std::min_element(clock.begin(), clock.end());
  out.median = cost::summarise(std::move(clock)).seconds;
  out.seconds = cost::summarise(std::move(whole)).seconds;
  for (const std::vector<Part>& parts : impl_->steps) {
    std::vector<double> seconds;
    for (const Part& p : parts) seconds.push_back(converted(p));
    out.steps.push_back(cost::summarise(std::move(seconds)).seconds);
  }
  return out;
}

}  // namespace isomer::driver

#endif  // ISOMER_HAS_COMPILER
