#ifdef ISOMER_HAS_COMPILER
#include "driver/race.h"

#include <algorithm>

#include "base/clock_seconds.h"
#include "base/stolen_time.h"

namespace isomer::driver {
namespace {

constexpr size_t kRounds = 8, kAlone = 3;  // of several, and of one that nothing is compared with
// A turn: the first of its runs finds the weights of the others in the caches, which no run of a model by itself does.
constexpr size_t kTurnRuns = 2;
constexpr double kTurnSeconds = 0.02;
// One run of so long is a turn: beside what it takes, weights that are in the caches are little.
constexpr double kLongTurn = 0.05;
// Runs are looked at together where they are short, and so many times a turn may be stolen from before it counts nevertheless.
constexpr double kTogether = 0.01;
constexpr int kMostThefts = 5;
constexpr double kPatience = 2;  // times the seconds of the race: until then

using Round = std::vector<double>;  // seconds of each

double clock_of(bool one_thread) { return clock_seconds(one_thread ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC); }

// Of some times, the one that this part of them is below.
double quantile(std::vector<double> seconds, double part) {
  std::sort(seconds.begin(), seconds.end());
  return seconds[static_cast<size_t>(part * static_cast<double>(seconds.size() - 1))];
}

// Of a turn the middle run stands for all, as it does for a user: of a model of many short steps the undisturbed runs are
// faster than it by more than those of one with few, where threads wait for each other on a busy machine.
double middle_one(std::vector<double> seconds) { return quantile(std::move(seconds), 0.5); }

// Of all turns a low one, not the lowest, which may owe its place to a rate that was looked at in the wrong moment.
double low_one(const std::vector<Round>& rounds, size_t runner) {
  std::vector<double> seconds;
  for (const Round& r : rounds) seconds.push_back(r[runner]);
  return quantile(std::move(seconds), 0.25);
}

// Two views, of which the worse counts: the ratio of low times, which undisturbed turns of both decide,
// and a ratio that three quarters of the rounds reach, whose turns share what else the machine does for seconds. One alone may be
// luck, and so may the middle of rounds that are far apart.
Finish finish_of(const std::vector<Round>& rounds, size_t runner) {
  Finish out;
  for (const Round& r : rounds) out.ratios.push_back(r[runner] / r[0]);
  std::vector<double> sorted = out.ratios;
  std::sort(sorted.begin(), sorted.end());
  const double reached = sorted[(3 * (sorted.size() - 1) + 3) / 4];
  out.seconds = std::max(reached * low_one(rounds, 0), low_one(rounds, runner));
  return out;
}

// Seconds of a run at the usual rate, without the looks at the rates that it had.
Expected<double> timed(Executor& executor, const std::vector<Tensor>& inputs, const RaceOptions& options) {
  const bool alone = options.threads == 1;
  options.watch->start();
  const double start = clock_of(alone);
  ISOMER_CHECK_OK(executor.run(inputs));
  const double passed = clock_of(alone) - start;
  const cost::WatchedRun run = options.watch->stop();
  // Of one thread its processor time counts, without that of its looks.
  const double seconds = alone ? passed - options.watch->own_seconds_of_looks() : seconds_of(run);
  return seconds / seconds_of(run) * at_usual_rates(run, options.usual, options.mix);
}

// Runs while the host of a virtual machine did something else tell nothing, unless by the processor's clock, which stands meanwhile; but
// they are not made again when the race takes `patience` already.
Expected<double> turn(Executor& executor, const std::vector<Tensor>& inputs, const RaceOptions& options,
                      double patience) {
  std::vector<double> seconds, disturbed;
  StolenTime stolen;
  int thefts = 0;
  const double begin = clock_of(false);
  options.watch->look();
  const auto enough = [&] {
    const double passed = clock_of(false) - begin;
    return passed >= kLongTurn ? !seconds.empty() : passed >= kTurnSeconds && seconds.size() >= kTurnRuns;
  };
  const auto given_up = [&] { return thefts >= kMostThefts || (thefts > 0 && clock_of(false) >= patience); };
  while (!given_up() && !enough()) {
    std::vector<double> some;
    for (const double start = clock_of(false); some.empty() || clock_of(false) - start < kTogether;) {
      ISOMER_TRY(const double run, timed(executor, inputs, options));
      some.push_back(run);
    }
    const bool theft = options.threads > 1 && stolen.grew();
    thefts += theft ? 1 : 0;
    std::vector<double>& kind = theft ? disturbed : seconds;
    kind.insert(kind.end(), some.begin(), some.end());
  }
  return middle_one(std::move(seconds.empty() ? disturbed : seconds));
}

}  // namespace

double least_race_seconds(size_t runners, double run_seconds) {
  const double turn = run_seconds >= kLongTurn ? run_seconds : std::max(kTurnSeconds, kTurnRuns * run_seconds);
  return static_cast<double>(runners * kRounds) * turn;
}

Expected<std::vector<Finish>> race(const std::vector<Executor*>& runners, const std::vector<Tensor>& inputs,
                                   const RaceOptions& options) {
  for (Executor* e : runners) {
    ISOMER_CHECK_OK(e->prepare(inputs));
    ISOMER_CHECK_OK(e->run(inputs));
  }
  const size_t least = runners.size() > 1 ? kRounds : kAlone;
  std::vector<Round> rounds;
  const double begin = clock_of(false), patience = begin + kPatience * options.seconds;
  while (rounds.size() < least || clock_of(false) - begin < options.seconds) {
    Round round;
    for (Executor* e : runners) {
      ISOMER_TRY(const double seconds, turn(*e, inputs, options, patience));
      round.push_back(seconds);
    }
    rounds.push_back(std::move(round));
  }
  std::vector<Finish> out;
  for (size_t i = 0; i < runners.size(); ++i) out.push_back(finish_of(rounds, i));
  return out;
}

}  // namespace isomer::driver

#endif  // ISOMER_HAS_COMPILER
