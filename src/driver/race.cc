#include "driver/race.h"

#include <algorithm>
#include <chrono>
#include <ctime>
#include <thread>

#ifdef ISOMER_HAS_COMPILER
#include "cost/tile_rate.h"
#endif

namespace isomer::driver {
namespace {

constexpr int kRounds = 3;
// A turn: the first of its runs finds the weights of the others in the caches, which no run of a model by itself does.
constexpr int kTurnRuns = 2;
constexpr double kTurnSeconds = 0.02;
constexpr int kLeastRuns = 3;  // of each, at the full rate
// Of the best rate of tile registers: the same core gives from 0.6 of it up by its clock, beside a neighbour 0.3.
constexpr double kFullRate = 0.45;
constexpr double kPatience = 6;      // times the seconds, for such runs of which two agree
constexpr double kConfirmed = 1.02;  // times the fastest: what takes no longer agrees

struct Run {
  double seconds = 0, tile_rate = 0;
};

double clock_of(bool one_thread) {
  timespec t = {};
  clock_gettime(one_thread ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

// The lowest of as many threads at the same time: another core may be slower than this one.
double tile_rate([[maybe_unused]] const loop::Target& target, [[maybe_unused]] int threads) {
  double lowest = 0;
#ifdef ISOMER_HAS_COMPILER
  lowest = cost::tile_register_rate(target);
  if (lowest == 0) return 0;
  std::vector<double> rates(static_cast<size_t>(std::max(threads, 1)) - 1);
  std::vector<std::thread> others;
  for (double& rate : rates) others.emplace_back([&] { rate = cost::tile_register_rate(target); });
  lowest = std::min(lowest, cost::tile_register_rate(target));
  for (std::thread& t : others) t.join();
  for (const double rate : rates) lowest = std::min(lowest, rate);
#endif
  return lowest;
}

std::vector<double> at_full_rate(const std::vector<Run>& runs, double best) {
  std::vector<double> out;
  for (const Run& r : runs)
    if (r.tile_rate >= kFullRate * best) out.push_back(r.seconds);
  return out;
}

// Enough runs, and a second one as fast as the fastest: of the few runs that a slow model has in the time, all may have been disturbed.
bool settled(std::vector<double> times) {
  if (times.size() < kLeastRuns) return false;
  std::sort(times.begin(), times.end());
  return times[1] <= kConfirmed * times[0];
}

// Some runs of one executor.
Expected<std::vector<Run>> turn(Executor& executor, const std::vector<Tensor>& inputs, const RaceOptions& options) {
  std::vector<Run> runs;
  const double before = tile_rate(options.target, options.threads), begin = clock_of(false);
  for (int n = 0; n < kTurnRuns || clock_of(false) - begin < kTurnSeconds; ++n) {
    const double start = clock_of(options.threads == 1);
    ISOMER_CHECK_OK(executor.run(inputs));
    runs.push_back({clock_of(options.threads == 1) - start, before});
  }
  const double after = tile_rate(options.target, options.threads);
  for (Run& r : runs) r.tile_rate = std::min(before, after);
  return runs;
}

}  // namespace

Expected<std::vector<double>> race(const std::vector<Executor*>& runners, const std::vector<Tensor>& inputs,
                                   const RaceOptions& options) {
  for (Executor* e : runners) {
    ISOMER_CHECK_OK(e->prepare(inputs));
    ISOMER_CHECK_OK(e->run(inputs));
  }
  std::vector<std::vector<Run>> runs(runners.size());
  double best = options.tile_rate;
  const double begin = clock_of(false);
  const auto wanting = [&] {
    return std::any_of(runs.begin(), runs.end(), [&](const auto& r) { return !settled(at_full_rate(r, best)); });
  };
  for (int round = 0;; ++round) {
    const double passed = clock_of(false) - begin;
    if (round >= kRounds && passed >= options.seconds && (!wanting() || passed >= kPatience * options.seconds)) break;
    for (size_t i = 0; i < runners.size(); ++i) {
      ISOMER_TRY(const std::vector<Run> more, turn(*runners[i], inputs, options));
      best = std::max(best, more[0].tile_rate);
      runs[i].insert(runs[i].end(), more.begin(), more.end());
    }
  }
  std::vector<double> out;
  for (const auto& r : runs) {
    std::vector<double> times = at_full_rate(r, best);
    if (times.empty()) times = at_full_rate(r, 0);
    out.push_back(*std::min_element(times.begin(), times.end()));
  }
  return out;
}

}  // namespace isomer::driver
