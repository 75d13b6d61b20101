// The analytic model: a kernel takes as long as its arithmetic, its other instructions and its traffic together at the machine's
// measured peaks, and a fixed time on top. (The slowest of them alone, as a roofline has it, is what nearly no kernel reaches.) It
// ranks kernels before they are measured and answers when nothing is measured; docs/cost.md states its error.
#pragma once

#include "cost/core_rate.h"
#include "cost/work.h"
#include "loop/target.h"

namespace isomer::cost {

// One core of the machine, and what the runtime costs on it.
struct Machine {
  double flops = 0;               // per second, products and sums of float32 in the widest vectors
  double tile_rate = 0;           // the same of BF16 in tile registers (core_rate.h); 0: none
  double instructions = 0;        // per second, simple vector instructions in a loop
  double l2_bandwidth = 0;        // bytes per second out of the second cache,
  double pool_bandwidth = 0;      // out of the last one behind it,
  double far_bandwidth = 0;       // and out of memory
  double step_seconds = 0;        // a step on one thread
  double region_seconds = 0;      // what a parallel region adds
  double shared_bandwidth = 1.0;  // of a bandwidth that a second core adds
  Rates usual = {};               // that times are taken at, or converted to
};

// A machine of the target's class, nowhere measured.
Machine nominal_machine(const loop::Target& target);

struct Load {
  Work work;
  double weight_bytes = 0;   // of the work's bytes; they are in no near cache when a kernel begins,
  bool far_weights = false;  // or in none at all
  int64_t tasks = 1;
  int threads = 1;
};
double estimated_seconds(const Load& load, const Machine& machine, const loop::Target& target);
// What one thread needs for it, before threads share it.
Mix mix_of(const Load& load, const Machine& machine, const loop::Target& target);

}  // namespace isomer::cost
