// The options of commands that run models: where inputs come from and what runs them.
#pragma once

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <string>
#include <vector>

#include "driver/executor.h"
#include "driver/inputs.h"

namespace isomer::tool {

struct RunOptions {
  std::vector<std::string> inputs;
  std::string range;
  uint64_t seed = 1;
  int threads = 0;
  bool wide = false;
  bool reference = false;
  std::string accuracy = "default";
};

// --accuracy default, unchecked or strict: whether algorithms that round otherwise than a sum of products may be used.
void declare_accuracy(CLI::App& app, std::string& accuracy);
driver::Accuracy accuracy_of(const std::string& name);
nlohmann::ordered_json accuracy_json(const driver::AccuracyFacts& facts);
void declare_run_options(CLI::App& app, RunOptions& options);
Expected<driver::InputOptions> input_options(const RunOptions& options);
driver::ExecutorOptions executor_options(const RunOptions& options);

}  // namespace isomer::tool
