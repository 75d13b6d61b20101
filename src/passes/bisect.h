// Finds the application of a pass that makes a graph compute something else. A run that is stopped after N applications
// is the beginning of every longer one, so a binary search over N finds it with a handful of runs in the interpreter.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "passes/manager.h"

namespace isomer::passes {

struct Culprit {
  std::string pass;
  std::string value;        // that the application gave, by its name before it
  int64_t application = 0;  // counted from 1 over the whole run
  double error = 0;         // of the outputs after it, relative to the largest magnitude of an output
};

// Largest error of `graph`'s outputs on `inputs`, relative to the largest magnitude of each expected output.
Expected<double> output_error(const ir::Graph& graph, const ir::OpTable& table, const std::vector<Tensor>& inputs,
                              const std::vector<Tensor>& expected);

// Nothing when the outputs stay within `tolerance` to the end.
Expected<std::optional<Culprit>> bisect(const ir::Graph& graph, const ir::OpTable& table,
                                        const std::vector<Step>& steps, const Options& options,
                                        const std::vector<Tensor>& inputs, double tolerance);

}  // namespace isomer::passes
