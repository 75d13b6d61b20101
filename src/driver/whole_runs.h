// WholeRuns: a graph compiled to be timed as it runs, whole and step by step, in the minutes in which its kernels are priced. What
// else the machine does changes from minute to minute: a price and a time are only comparable when they were taken together.
#pragma once

#include <memory>
#include <vector>

#include "base/expected.h"
#include "cost/pricer.h"
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
    double seconds = 0;              // in the middle, at the usual rates of the core as prices are
    std::vector<double> steps;       // the same of each step
    double sum_of_steps() const;
  };
  // Of all turns; or what went wrong in one of them. How far a time depends on the rates of the core the priced kernels tell: those of
  // the same steps, of another plan all of them together.
  Expected<Times> times(const cost::Rates& usual, const std::vector<cost::KernelPrice>& kernels) const;

 private:
  struct Impl;
  explicit WholeRuns(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace isomer::driver
