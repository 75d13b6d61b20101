// A race: several executors of the same inputs run in turns, so that what else the machine does meets all of them.
#pragma once

#include <vector>

#include "cost/core_rate.h"
#include "driver/core_watch.h"
#include "driver/executor.h"

namespace isomer::driver {

struct RaceOptions {
  double seconds = 2;
  // Of each executor. Of one the processor time counts, to which others on the machine add little; else the time on the clock.
  int threads = 1;
  // Times are converted to the usual rates of the cores, as those of kernels are, and all by one mix: how far a kernel depends on the
  // rates is known roughly, and an error that all runners share is in no ratio. The executors may be compiled with the watch.
  CoreWatch* watch = nullptr;
  cost::Rates usual = {};
  cost::Mix mix = {};
};

struct Finish {
  // Of an undisturbed run of the first one, and of the others so many that none looks faster beside the first than it can be
  // trusted to be.
  double seconds = 0;
  std::vector<double> ratios = {};  // to the first one, round by round
};
// Of so many that take so long, where no more rounds are run than have to be.
double least_race_seconds(size_t runners, double run_seconds);
Expected<std::vector<Finish>> race(const std::vector<Executor*>& runners, const std::vector<Tensor>& inputs,
                                   const RaceOptions& options);

}  // namespace isomer::driver
