// Times kernels as they run in a model: by the runtime's own steps and threads, on buffers of their real sizes. Before each
// timed run a step brings the arguments to where the model would have them (reach.h).  Times are those at the rate that the core usually has; where it had another one, they are converted to it, as far as the kernel's time is the core's (core_rate.h).
// Runs during which the system took a thread off its core do not count, unless there are no others; then, of a kernel on
// one thread, its processor time does.
// Invariant: a kernel that writes outside its buffers is found by the red zones round them and has no time.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/expected.h"
#include "compile/kernel_code.h"
#include "cost/core_rate.h"
#include "cost/reach.h"
#include "loop/stmt.h"
#include "loop/target.h"

namespace isomer::cost {

// What an argument of a kernel is to the model.
enum class Role : uint8_t { Value, Weight };

struct Subject {
  const loop::Function* function = nullptr;
  std::vector<Role> roles;      // one per argument
  double flops = 0, bytes = 0;  // the step's: the runtime decides by them whether threads pay
  double expected = 0;          // seconds, about; 0: not known
  double limit = 0;             // seconds: a kernel that is clearly slower is not run again; 0: no limit
  Mix mix = {};                 // not known: its time is that of its units
  Context context = {};         // in a plan; without reaches: the standard state
  compile::Code code = {};      // without an entry: it is made first
  bool in_plan() const { return !context.reaches.empty(); }
};

struct MeasureOptions {
  loop::Target target;
  int threads = 1;
  Reach weights = kStandardWeights;      // in the standard state
  uint64_t traffic = uint64_t{1} << 20;  // bytes that each thread reads between the values' writing and the kernel
  double seconds = 0.014;                // of timed runs, unless the times agree earlier
  double most_seconds = 0.2;             // when the system keeps disturbing
  size_t most_runs = 128;                // more tell no more: goes differ by more than their runs
  int goes = 2;      // each kernel so often, with the others between them; more where these do not agree
  Rates usual = {};  // not known: times are not converted
  std::function<void()> between = nullptr;  // called after every go
};

struct Timing {
  double seconds = 0;  // what the kernel takes when nothing disturbs it
  double spread = 0;   // of the middle half of the runs, relative
  size_t runs = 0;
};

// One timing per subject, or why there is none: the kernel fails on made-up data, writes where it must not, or its
// buffers do not fit in memory. One call at a time in a process gives sound times.
std::vector<Expected<Timing>> measure(std::vector<Subject> subjects, const MeasureOptions& options);

// The one in the middle: what disturbs adds to a few, and a rate that was looked at in the wrong moment errs to either side.
Timing summarise(std::vector<double> samples);

}  // namespace isomer::cost
