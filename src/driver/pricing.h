// What `isomer cost` does: a model's price beside what it takes, and the store of measured kernels. Where Isomer is built
// without a code generator there is nothing to price, and the reason says so.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/expected.h"
#include "ir/graph.h"
#include "tensor/tensor.h"

namespace isomer::driver {

struct PricingOptions {
  int threads = 0;        // 0: one per core
  bool estimate = false;  // by the analytic model alone: nothing is timed, and the store is not asked
  std::string store;      // file; "": the standard place, "-": none
  bool layout = false;    // also with the best layouts and algorithms
  bool run = false;       // also run the model
  double seconds = 2;     // of timed runs, beside those while kernels are timed
};

struct PricedKernel {
  std::string kernel, origin;
  int64_t tasks = 1;
  double flops = 0, bytes = 0;
  double seconds = 0, estimate = 0;
  bool known = false;      // measured, now or earlier
  double run_seconds = 0;  // in runs of the model; 0 when it was not run
};

// A group of stages that is faster in another way than the compiler's own.
struct LabelGain {
  std::string value, algorithm;
  double standard = 0, seconds = 0;
};

struct Pricing {
  std::vector<PricedKernel> kernels;
  double seconds = 0, estimate = 0;
  size_t measured = 0, estimated = 0;  // kernels timed for this answer; steps that nobody timed
  int threads = 1;
  double labelled_seconds = 0;  // with the labels; 0 when they were not asked for
  std::vector<LabelGain> labels;
  double price_seconds = 0;           // that finding the price took
  double fastest = 0, median = 0;     // of the runs, on the clock; 0 when it was not run
  double run_seconds = 0;             // of a run at the usual rate of the core, as prices are
  std::vector<std::string> warnings;  // about the store
};

// `inputs` are needed when the model is run.
Expected<Pricing> price_model(const ir::Graph& graph, const std::vector<Tensor>& inputs, const PricingOptions& options);

struct ProfileStore {
  std::string path;
  int64_t entries = 0, key_bytes = 0, file_bytes = 0, oldest = 0, newest = 0;
  std::vector<std::pair<std::string, int64_t>> settings;  // machine, compiler and threads: entries
  std::vector<std::string> warnings;
};
Expected<ProfileStore> show_store(const std::string& path);
Expected<int64_t> clear_store(const std::string& path);  // entries that are gone
Expected<ProfileStore> export_store(const std::string& path, const std::string& file);
Expected<int64_t> import_store(const std::string& path, const std::string& file);  // entries that are new

}  // namespace isomer::driver
