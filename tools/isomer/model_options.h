// The options that every command with a MODEL shares: the model, --shape, --dim and --outputs.
#pragma once

#include <CLI/CLI.hpp>

#include <string>
#include <vector>

#include "driver/model.h"

namespace isomer::tool {

struct ModelOptions {
  std::string spec;
  std::vector<std::string> shapes, dims, outputs;
};

void declare_model(CLI::App& app, ModelOptions& options);
void declare_bindings(CLI::App& app, ModelOptions& options);  // --shape and --dim alone
// Loads, prints warnings, keeps the outputs that are wanted, binds shapes and dimensions.
Expected<driver::Model> load(const ModelOptions& options);
Expected<driver::Bindings> bindings(const ModelOptions& options);

}  // namespace isomer::tool
