#include "passes/manager.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>

#include "ir/text.h"
#include "ir/verify.h"
#include "passes/editor.h"

namespace isomer::passes {
namespace {

Diagnostic unknown_pass(std::string_view name) {
  return Diagnostic("E-pass",
                    fmt::format("there is no pass {}; `isomer passes list` lists them", isomer::quoted(name)));
}

Expected<void> dump(const std::string& folder, size_t serial, std::string_view pass, std::string_view when,
                    const ir::Graph& graph) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  const std::string path = fmt::format("{}/{:02}_{}.{}.iso", folder, serial, pass, when);
  // Weights are named by their content; a reader of a dump looks at the nodes.
  ir::ConstantPool pool;
  std::ofstream file(path, std::ios::binary);
  file << ir::print(graph, &pool);
  if (!file.flush()) return Diagnostic("E-file", fmt::format("cannot write {}", isomer::quoted(path)));
  return {};
}

// The pass on the graph, and then on the bodies of control flow in what it gave.
Expected<ir::Graph> apply(const Pass& pass, const ir::Graph& graph, PassContext& context, int depth = 0) {
  constexpr int kDeepest = 64;  // as the readers of graphs have it
  ISOMER_TRY(ir::Graph out, pass.run(graph, context));
  std::vector<std::pair<uint32_t, ir::Attrs>> changed;
  for (uint32_t id = 0; id < out.nodes().size() && depth < kDeepest; ++id) {
    for (const auto& [key, value] : out.node(id).attrs) {
      const auto* body = std::get_if<ir::GraphRef>(&value);
      // What Isomer has no meaning for is carried as it is.
      if (!body || out.node(id).op->open_attrs) continue;
      ISOMER_TRY(ir::Graph inner, apply(pass, **body, context, depth + 1));
      if (ir::identical(inner, **body)) continue;
      if (changed.empty() || changed.back().first != id) changed.emplace_back(id, out.node(id).attrs);
      changed.back().second.set(key, std::make_shared<const ir::Graph>(std::move(inner)));
    }
  }
  if (changed.empty()) return out;
  Editor editor(out, context.table());
  for (auto& [id, attrs] : changed) editor.set_attrs(id, std::move(attrs));
  return editor.finish();
}

class Manager {
 public:
  Manager(const ir::Graph& graph, const ir::OpTable& table, const Options& options)
      : options_(options), context_(table), counts_(count_operators(graph)) {
    result_.graph = graph;
    context_.limits = options.limits;
    context_.evaluate = options.evaluate;
    context_.stop_after(options.stop_after);
  }

  Expected<void> run(const Step& step) {
    for (int round = 0; round < step.rounds; ++round) {
      bool changed = false;
      for (const std::string& name : step.passes) {
        if (std::find(options_.disabled.begin(), options_.disabled.end(), name) != options_.disabled.end()) continue;
        ISOMER_CHECK_OK(run(*find(name)));
        changed |= result_.reports.back().changed;
      }
      if (!changed) break;
    }
    return {};
  }

  Result finish() && {
    result_.applications = context_.applications();
    return std::move(result_);
  }

 private:
  Expected<void> run(const Pass& pass) {
    const int64_t applications = context_.applications();
    const auto start = std::chrono::steady_clock::now();
    auto graph = apply(pass, result_.graph, context_);
    const std::chrono::duration<double, std::milli> time = std::chrono::steady_clock::now() - start;
    if (!graph.ok()) return std::move(graph).error().note(fmt::format("in pass {}", pass.name));
    const bool changed = graph->content_hash() != result_.graph.content_hash();
    OperatorCounts counts = graph->shares(result_.graph) ? counts_ : count_operators(*graph);
    Report report{std::string(pass.name), changed, context_.applications() - applications,
                  time.count(),           counts_, counts};
    if (report.applications > 0) {
      result_.last_pass = pass.name;
      result_.last_value = context_.last();
    }
    if (report.changed && options_.verify) {
      auto verified = ir::verify(*graph, context_.table());
      if (!verified.ok()) return std::move(verified).error().note(fmt::format("after pass {}", pass.name));
    }
    if (report.changed && !options_.dump.empty()) {
      ISOMER_CHECK_OK(dump(options_.dump, result_.reports.size(), pass.name, "before", result_.graph));
      ISOMER_CHECK_OK(dump(options_.dump, result_.reports.size(), pass.name, "after", *graph));
    }
    result_.reports.push_back(std::move(report));
    result_.graph = *graph;
    counts_ = std::move(counts);
    return {};
  }

  const Options& options_;
  PassContext context_;
  Result result_;
  OperatorCounts counts_;  // of the graph as it is now
};

}  // namespace

OperatorCounts count_operators(const ir::Graph& graph) {
  OperatorCounts counts;
  for (const ir::Node& n : graph.nodes()) {
    if (ir::is_computed(n)) ++counts[n.op->name];
    for (const auto& [key, value] : n.attrs)
      if (const auto* body = std::get_if<ir::GraphRef>(&value))
        for (const auto& [op, count] : count_operators(**body)) counts[op] += count;
  }
  return counts;
}

Expected<std::vector<Step>> find_pipeline(std::string_view name) {
  std::string all;
  for (const Pipeline& p : pipelines()) {
    if (p.name == name) return p.steps;
    all += (all.empty() ? "" : ", ") + p.name;
  }
  return Diagnostic("E-pass", fmt::format("there is no pipeline {}; there are {}", isomer::quoted(name), all));
}

Expected<std::vector<Step>> parse_passes(std::string_view list) {
  std::vector<Step> steps;
  while (!list.empty()) {
    const size_t comma = std::min(list.find(','), list.size());
    const std::string_view name = list.substr(0, comma);
    if (!find(name)) return unknown_pass(name);
    steps.push_back({{std::string(name)}, 1});
    list.remove_prefix(std::min(comma + 1, list.size()));
  }
  return steps;
}

Expected<Result> run(const ir::Graph& graph, const ir::OpTable& table, const std::vector<Step>& steps,
                     const Options& options) {
  for (const std::string& name : options.disabled)
    if (!find(name)) return unknown_pass(name);
  for (const Step& s : steps)
    for (const std::string& name : s.passes)
      if (!find(name)) return unknown_pass(name);
  Manager manager(graph, table, options);
  for (const Step& s : steps) ISOMER_CHECK_OK(manager.run(s));
  return std::move(manager).finish();
}

Expected<ir::Graph> run_pipeline(const ir::Graph& graph, const ir::OpTable& table, std::string_view pipeline,
                                 const Options& options) {
  ISOMER_TRY(const std::vector<Step> steps, find_pipeline(pipeline));
  ISOMER_TRY(Result result, run(graph, table, steps, options));
  return std::move(result.graph);
}

}  // namespace isomer::passes
