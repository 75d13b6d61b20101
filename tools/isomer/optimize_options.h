// The options of a search, for `isomer optimize` and for the commands that take --optimize.
#pragma once

#include <CLI/CLI.hpp>

#include <string>

#include "driver/optimize.h"

namespace isomer::tool {

struct OptimizeChoices {
  std::string budget = "60s", strategy = "relaxed", store;
  double alpha = 1.05;
  int64_t steps = 4000;
  int threads = 0;
  bool no_measure = false, layout = false, fresh = false;
};

void declare_optimize_options(CLI::App& app, OptimizeChoices& choices);
Expected<driver::OptimizeOptions> optimize_options(const OptimizeChoices& choices);

// "60s", "2m", "500ms", "0" as seconds.
Expected<double> parse_budget(const std::string& text);

// Shows how far the search is; an interrupt ends it with the best so far.
Expected<driver::Optimized> optimize_with_progress(const ir::Graph& graph, driver::OptimizeOptions& options,
                                                   const std::string& what);

// --optimize[=BUDGET] of other commands: "" is no optimisation. A graph that cannot be trusted is a diagnostic.
void declare_optimize_flag(CLI::App& app, std::string& budget);
Expected<ir::Graph> optimized_graph(const ir::Graph& graph, const std::string& budget, int threads,
                                    const std::string& what);

}  // namespace isomer::tool
