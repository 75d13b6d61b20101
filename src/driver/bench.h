// How fast a model runs, what it takes, and how far its results are from the reference.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "driver/executor.h"
#include "driver/module_file.h"

namespace isomer::driver {

struct BenchOptions {
  ExecutorOptions executor;
  double seconds = 3;  // of timed runs; there are at least kLeastRuns
  bool check = true;   // against the reference
};

// Largest error of one output, against plain loops in double.
struct OutputError {
  std::string name;
  double of_largest = 0;  // relative to the output's largest magnitude; of integers the share of wrong elements
  bool exact = false;     // integers and booleans, which must be equal
};

struct BenchResult {
  double pass_seconds = 0, compile_seconds = 0, first_run_seconds = 0;
  std::vector<double> latencies;  // seconds, sorted
  uint64_t peak_bytes = 0;        // of the process before the reference ran
  ExecutorFacts facts;
  std::vector<NodeReport> report;
  std::vector<StepTime> steps;
  std::optional<double> flops;  // of one run, twice the multiply-accumulates
  double peak_flops = 0;        // of the machine with the same threads
  std::vector<OutputError> errors;
  double reference_seconds = 0;

  double quantile(double q) const;
};

Expected<BenchResult> bench(const ir::Graph& graph, const std::vector<Tensor>& inputs, const BenchOptions& options);

// A module holds no graph: its results are compared with those of `model`, the graph it was compiled from, where one is given.
Expected<BenchResult> bench_module(const std::shared_ptr<const ModuleFile>& file, const ir::Graph* model,
                                   const std::vector<Tensor>& inputs, const BenchOptions& options);

}  // namespace isomer::driver
