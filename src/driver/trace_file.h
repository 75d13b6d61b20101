// Traces: the steps of an optimisation as a JSON file, enough to make them again without searching.
#pragma once

#include <string>
#include <vector>

#include "base/expected.h"
#include "driver/optimize.h"

namespace isomer::driver {

struct Trace {
  std::string model;          // as the user named it
  std::string start, result;  // content hashes of the graph before the first step, and of what was written
  std::vector<search::Step> steps;
  std::string labels;  // of the result (compile/labels.h), "" when it has none
  std::vector<search::Considered> considered;
};

Trace trace_of(const std::string& model, const Optimized& optimized);
std::string print(const Trace& trace);
Expected<Trace> parse_trace(const std::string& text);  // E-trace with no more than its code
Expected<void> save_trace(const Trace& trace, const std::string& path);
// E-trace where the file is no trace, or one of another version.
Expected<Trace> load_trace(const std::string& path);

}  // namespace isomer::driver
