// A graph compiled into a module file: passes, loops, machine code, library, for one target or several of one architecture.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/expected.h"
#include "driver/accuracy.h"
#include "ir/graph.h"

namespace isomer::driver {

struct CompileOptions {
  std::vector<std::string> targets = {
      "host"};                         // "host", "x86-64-v3", ...; several: the first that a CPU can run is used
  std::string pipeline = "inference";  // of graph passes
  int threads = 0;                     // that compile; 0: one per CPU
  Accuracy accuracy = Accuracy::Checked;
  std::string dump_dir;  // when not empty: each kernel's loops, IR and assembly
};

struct CompileReport {
  struct Variant {
    std::string target;
    std::string sizes;  // of the inputs, where there are several
    size_t steps = 0, kernels = 0;
    uint64_t arena_bytes = 0, least_arena_bytes = 0;
  };
  std::vector<Variant> variants;
  uint64_t file_bytes = 0, weight_bytes = 0;
  double pass_seconds = 0, lower_seconds = 0, code_seconds = 0, link_seconds = 0, trial_seconds = 0;
  AccuracyFacts accuracy;
};

// One model at one set of sizes or several, all of them numbers: a run of the module takes the one that its inputs have.
// E-dynamic-dim where a size is open, E-no-compiler in a build without code generator.
Expected<CompileReport> compile_module(const std::vector<ir::Graph>& sizes, const CompileOptions& options,
                                       const std::string& path);

}  // namespace isomer::driver
