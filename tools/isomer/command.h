// A command of the tool: its options on the command line and what it answers. Each lives in a file of its name.
#pragma once

#include <CLI/CLI.hpp>

#include <functional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/expected.h"

namespace isomer::tool {

// What a command has to say, as text and as data. exit_code 1 means "the answer is no".
struct Answer {
  std::string text;
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  int exit_code = 0;
};

// Called after parsing; warnings and progress go to standard error.
using Action = std::function<Expected<Answer>()>;

struct Command {
  std::string name;
  std::string summary;
  std::string examples;  // shown under --help
  // Declares the options and returns the action that reads them.
  Action (*declare)(CLI::App& app);
};

const std::vector<Command>& commands();

Action declare_bench(CLI::App& app);
Action declare_check(CLI::App& app);
Action declare_compare(CLI::App& app);
Action declare_compile(CLI::App& app);
Action declare_completion(CLI::App& app);
Action declare_convert(CLI::App& app);
Action declare_cost(CLI::App& app);
Action declare_ops(CLI::App& app);
Action declare_optimize(CLI::App& app);
Action declare_passes(CLI::App& app);
Action declare_rewrite(CLI::App& app);
Action declare_rules(CLI::App& app);
Action declare_rules_generate(CLI::App& rules);  // a subcommand of rules
Action declare_run(CLI::App& app);
Action declare_show(CLI::App& app);
Action declare_zoo(CLI::App& app);

void print_warnings(const std::vector<std::string>& warnings);

}  // namespace isomer::tool
