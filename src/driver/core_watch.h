// CoreWatch: the rates that the cores have while something runs: at its ends and, where it was compiled with watch(), between its
// steps. What a neighbour takes changes within milliseconds, and two looks say little of what a run of hundreds had.
#pragma once

#include <chrono>
#include <vector>

#include "compile/executable.h"
#include "cost/core_rate.h"
#include "loop/target.h"

namespace isomer::driver {

// One run at a time, on as many threads.
class CoreWatch {
 public:
  CoreWatch(const loop::Target& target, int threads);

  compile::Watch watch();  // as long as this lives

  void look();   // before the first run
  void start();  // right before a run; the last look was before it
  // Right after it, or after so many of them: what one took, without the looks.
  cost::WatchedRun stop(int runs = 1);
  // Of the last run on one thread: processor seconds of the looks between its steps.
  double own_seconds_of_looks() const;
  // Of the last run: before it, between its steps, after it.
  const std::vector<cost::Rates>& rates() const { return rates_; }

 private:
  struct Look {
    double begin = 0, end = 0;
    cost::Rates rates = {};
    double own = 0;  // processor seconds
  };
  static int32_t look_on(void* const* arguments, int64_t begin, int64_t end, void* scratch);
  double now() const;
  std::vector<Look> taken();

  const loop::Target target_;
  const std::chrono::steady_clock::time_point zero_;
  std::vector<std::vector<Look>> looks_;  // by task, which is a thread
  cost::Rates last_;
  double started_ = 0;
  std::vector<cost::Rates> rates_;
};

}  // namespace isomer::driver
