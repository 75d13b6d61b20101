#ifdef ISOMER_HAS_COMPILER
#include "driver/core_watch.h"

#include <algorithm>
#include <utility>

#include "base/clock_seconds.h"

namespace isomer::driver {
namespace {

constexpr double kSeconds = 0.002;  // between two looks in a run, about

double own_seconds() { return clock_seconds(CLOCK_THREAD_CPUTIME_ID); }

}  // namespace

CoreWatch::CoreWatch(const loop::Target& target, int threads)
    : target_(target), zero_(std::chrono::steady_clock::now()), looks_(static_cast<size_t>(std::max(threads, 1))) {}

compile::Watch CoreWatch::watch() { return {&CoreWatch::look_on, this, static_cast<int>(looks_.size()), kSeconds}; }

double CoreWatch::now() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - zero_).count();
}

void CoreWatch::look() { last_ = cost::mean_core_rates(target_, static_cast<int>(looks_.size())); }

void CoreWatch::start() {
  for (std::vector<Look>& of_task : looks_) of_task.clear();
  started_ = now();
}

cost::WatchedRun CoreWatch::stop(int runs) {
  const double end = now();
  std::vector<Look> all = taken();
  rates_ = {last_};
  look();
  all.push_back({end, end, last_});
  cost::WatchedRun out;
  for (const Look& l : all) {
    out.push_back({(l.begin - std::exchange(started_, l.end)) / runs, cost::mean_of({rates_.back(), l.rates})});
    rates_.push_back(l.rates);
  }
  return out;
}

double CoreWatch::own_seconds_of_looks() const {
  double sum = 0;
  for (const Look& l : looks_[0]) sum += l.own;
  return sum;
}

// Of all threads: from the first begin to the last end, the mean rate.
std::vector<CoreWatch::Look> CoreWatch::taken() {
  std::vector<Look> out;
  for (size_t i = 0; i < looks_[0].size(); ++i) {
    Look all = looks_[0][i];
    std::vector<cost::Rates> rates;
    for (const std::vector<Look>& of_task : looks_) {
      if (i >= of_task.size()) continue;
      all.begin = std::min(all.begin, of_task[i].begin);
      all.end = std::max(all.end, of_task[i].end);
      rates.push_back(of_task[i].rates);
    }
    all.rates = cost::mean_of(rates);
    out.push_back(all);
  }
  return out;
}

int32_t CoreWatch::look_on(void* const* arguments, int64_t begin, int64_t end, void* /*scratch*/) {
  auto* self = static_cast<CoreWatch*>(arguments[0]);
  for (auto t = static_cast<size_t>(begin); t < static_cast<size_t>(end); ++t) {
    const double start = self->now(), own = own_seconds();
    const cost::Rates rates = cost::core_rates(self->target_);
    const double used = own_seconds() - own;
    self->looks_[t].push_back({start, self->now(), rates, used});
  }
  return 0;
}

}  // namespace isomer::driver

#endif  // ISOMER_HAS_COMPILER
