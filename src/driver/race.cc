#ifdef ISOMER_HAS_COMPILER
#include "driver/race.h"

#include <algorithm>
#include <chrono>
#include <ctime>
#include <thread>

namespace isomer::driver {
namespace {

constexpr size_t kRounds = 5;
// A turn: the first of its runs finds the weights of the others in the caches, which no run of a model by itself does.
constexpr int kTurnRuns = 2;
constexpr double kTurnSeconds = 0.02;
constexpr double kPatience = 6;  // times the seconds, for rounds at the full rate

struct Turn {
  double seconds = 0, rate = 0;  // of the fastest run, and the lowest
};
using Round = std::vector<Turn>;  // one of each

double clock_of(bool one_thread) {
  timespec t = {};
  clock_gettime(one_thread ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

// The lowest of as many threads at the same time: another core may be slower than this one.
double lowest_rate(const loop::Target& target, int threads) {
  const cost::Units units = cost::fastest_units(target);
  std::vector<double> rates(static_cast<size_t>(std::max(threads, 1)));
  std::vector<std::thread> others;
  for (size_t t = 1; t < rates.size(); ++t) others.emplace_back([&, t] { rates[t] = cost::core_rate(units, target); });
  rates[0] = cost::core_rate(units, target);
  for (std::thread& t : others) t.join();
  return *std::min_element(rates.begin(), rates.end());
}

// Rounds in which nobody was slowed down.
std::vector<const Round*> at_full_rate(const std::vector<Round>& rounds, const cost::BestRates& best,
                                       cost::Units units) {
  std::vector<const Round*> out;
  for (const Round& r : rounds)
    if (std::all_of(r.begin(), r.end(), [&](const Turn& t) { return best.is_full(units, t.rate); })) out.push_back(&r);
  return out;
}

double fastest(const std::vector<const Round*>& rounds, size_t runner) {
  double out = 1e30;
  for (const Round* r : rounds) out = std::min(out, (*r)[runner].seconds);
  return out;
}

// Times the first one's. Two views, of which the worse counts: the ratio of the fastest runs, which undisturbed turns of both decide,
// and a ratio that three quarters of the rounds reach, whose turns share what else the machine does for seconds. One alone may be luck,
// and so may the middle of rounds that are far apart.
double ratio_of(const std::vector<const Round*>& rounds, size_t runner) {
  std::vector<double> ratios;
  for (const Round* r : rounds) ratios.push_back((*r)[runner].seconds / (*r)[0].seconds);
  std::sort(ratios.begin(), ratios.end());
  const double reached = ratios[(3 * (ratios.size() - 1) + 3) / 4];
  return std::max(reached, fastest(rounds, runner) / fastest(rounds, 0));
}

Expected<Turn> turn(Executor& executor, const std::vector<Tensor>& inputs, const RaceOptions& options) {
  Turn out{1e30, lowest_rate(options.target, options.threads)};
  const double begin = clock_of(false);
  for (int n = 0; n < kTurnRuns || clock_of(false) - begin < kTurnSeconds; ++n) {
    const double start = clock_of(options.threads == 1);
    ISOMER_CHECK_OK(executor.run(inputs));
    out.seconds = std::min(out.seconds, clock_of(options.threads == 1) - start);
  }
  out.rate = std::min(out.rate, lowest_rate(options.target, options.threads));
  return out;
}

}  // namespace

Expected<std::vector<double>> race(const std::vector<Executor*>& runners, const std::vector<Tensor>& inputs,
                                   const RaceOptions& options) {
  for (Executor* e : runners) {
    ISOMER_CHECK_OK(e->prepare(inputs));
    ISOMER_CHECK_OK(e->run(inputs));
  }
  std::vector<Round> rounds;
  const cost::Units units = cost::fastest_units(options.target);
  cost::BestRates best = options.rates;
  for (const double begin = clock_of(false);;) {
    const double passed = clock_of(false) - begin;
    const bool enough = at_full_rate(rounds, best, units).size() >= kRounds || passed >= kPatience * options.seconds;
    if (rounds.size() >= kRounds && passed >= options.seconds && enough) break;
    Round round;
    for (Executor* e : runners) {
      ISOMER_TRY(const Turn t, turn(*e, inputs, options));
      best.see(units, t.rate);
      round.push_back(t);
    }
    rounds.push_back(std::move(round));
  }
  std::vector<const Round*> counting = at_full_rate(rounds, best, units);
  if (counting.empty()) counting = at_full_rate(rounds, {}, units);
  std::vector<double> out;
  for (size_t i = 0; i < runners.size(); ++i) out.push_back(fastest(counting, 0) * ratio_of(counting, i));
  return out;
}

}  // namespace isomer::driver

#endif  // ISOMER_HAS_COMPILER
