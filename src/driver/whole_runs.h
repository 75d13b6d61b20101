// WholeRuns: a graph compiled to be timed as it runs, whole and step by step, in the minutes in which its kernels are priced. What
// else the machine does changes from minute to minute: a price and a time are only comparable when they were taken together.
#pragma once

#include <memory>
#include <vector>

#include "base/expected.h"
#include "cost/core_rate.h"
#include "ir/graph.h"
#include "tensor/tensor.h"

namespace isomer::driver {

class WholeRuns {
 public:
  // The graph is compiled as it is priced: whatever depends on constants alone is computed.
  static Expected<std::unique_ptr<WholeRuns>> make(const ir::Graph& graph, std::vector<Tensor> inputs, int threads);
  ~WholeRuns();
  WholeRuns(const WholeRuns&) = delete;
  WholeRuns& operator=(const WholeRuns&) = delete;

  // Some runs that count, behind one that finds what others left in the caches.
  Expected<void> turn();
  // The same, unless turns have had their fifth of the time since the first one.
  void turn_when_due();
  size_t turns() const;

  struct Times {
    double fastest = 0, median = 0;  // seconds on the clock
    double seconds = 0;              // in the middle, at the usual rate of the core as prices are
    std::vector<double> steps;       // the same of each step
    double sum_of_steps() const;
  };
  // Of all turns; or what went wrong in one of them.
  Expected<Times> times(const cost::Rates& usual, cost::CoreShare share) const;

 private:
  struct Impl;
  explicit WholeRuns(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace isomer::driver
