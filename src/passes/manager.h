// The manager: runs passes and does their chores. It times, verifies, dumps and counts; "changed" is another content
// hash, never a pass's own word. The same graph, pipeline and options give the same graph.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/expected.h"
#include "ir/graph.h"
#include "passes/pass.h"

namespace isomer::passes {

// Passes that run one after the other, all again while one of them changes the graph, `rounds` times at most.
struct Step {
  std::vector<std::string> passes;
  int rounds = 1;
};

struct Pipeline {
  std::string name;
  std::string doc;
  std::vector<Step> steps;
};
const std::vector<Pipeline>& pipelines();  // sorted by name
Expected<std::vector<Step>> find_pipeline(std::string_view name);
// "a,b,c": each once, in this order.
Expected<std::vector<Step>> parse_passes(std::string_view list);

struct Options {
  bool verify = false;                // every graph a pass gives, against the operator records
  std::string dump = {};              // folder for the text before and after every pass that changed something
  std::vector<std::string> disabled;  // names of passes that are left out
  int64_t stop_after = std::numeric_limits<int64_t>::max();  // applications, over all passes
  Limits limits = {};
  Evaluate evaluate = nullptr;  // for those who ask what passes make of a graph, and not for the values
};

using OperatorCounts = std::map<std::string, int64_t>;
OperatorCounts count_operators(const ir::Graph& graph);  // bodies included; constants and inputs apart

struct Report {
  std::string pass;
  bool changed = false;
  int64_t applications = 0;
  double milliseconds = 0;
  OperatorCounts before, after;
};

struct Result {
  ir::Graph graph;
  std::vector<Report> reports;  // one per pass that ran, in order
  int64_t applications = 0;
  std::string last_pass, last_value;  // of the last application
};

Expected<Result> run(const ir::Graph& graph, const ir::OpTable& table, const std::vector<Step>& steps,
                     const Options& options = {});
Expected<ir::Graph> run_pipeline(const ir::Graph& graph, const ir::OpTable& table, std::string_view pipeline,
                                 const Options& options = {});

}  // namespace isomer::passes
