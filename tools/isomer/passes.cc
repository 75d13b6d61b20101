#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "driver/inputs.h"
#include "driver/model.h"
#include "isomer/command.h"
#include "isomer/model_options.h"
#include "ops/table.h"
#include "passes/bisect.h"
#include "passes/manager.h"

namespace isomer::tool {
namespace {

struct PassesFlags {
  ModelOptions model;
  std::string passes, pipeline, out, dump;
  std::vector<std::string> disabled;
  bool verify = false, time = false, bisect = false;
  int64_t stop_after = -1;
  uint64_t seed = 1;
  double rtol = 1e-4;
};

std::string step_text(const passes::Step& s) {
  std::string names;
  for (const std::string& p : s.passes) names += (names.empty() ? "" : ", ") + p;
  return s.rounds > 1 ? fmt::format("{{{}}} at most {} times", names, s.rounds) : names;
}

Answer list() {
  Answer a;
  a.json = {{"passes", nlohmann::json::array()}, {"pipelines", nlohmann::json::array()}};
  for (const passes::Pass& p : passes::table()) {
    a.text += fmt::format("{:<24}{:<15}{}\n", p.name, name(p.numerics), p.doc);
    a.json["passes"].push_back({{"name", p.name}, {"numerics", name(p.numerics)}, {"doc", p.doc}});
  }
  for (const passes::Pipeline& p : passes::pipelines()) {
    a.text += fmt::format("\npipeline {}: {}\n", p.name, p.doc);
    nlohmann::ordered_json steps = nlohmann::json::array();
    for (const passes::Step& s : p.steps) {
      a.text += fmt::format("  {}\n", step_text(s));
      steps.push_back({{"passes", s.passes}, {"rounds", s.rounds}});
    }
    a.json["pipelines"].push_back({{"name", p.name}, {"doc", p.doc}, {"steps", std::move(steps)}});
  }
  return a;
}

int64_t total(const passes::OperatorCounts& counts) {
  int64_t n = 0;
  for (const auto& [op, k] : counts) n += k;
  return n;
}

// "add 14 -> 2, mul 3 -> 0"
std::string difference(const passes::OperatorCounts& before, const passes::OperatorCounts& after) {
  std::set<std::string> names;
  for (const auto& [op, n] : before) names.insert(op);
  for (const auto& [op, n] : after) names.insert(op);
  const auto at = [](const passes::OperatorCounts& c, const std::string& op) {
    const auto it = c.find(op);
    return it == c.end() ? int64_t{0} : it->second;
  };
  std::string out;
  for (const std::string& op : names)
    if (at(before, op) != at(after, op))
      out += fmt::format("{}{} {} -> {}", out.empty() ? "" : ", ", op, at(before, op), at(after, op));
  return out;
}

Answer report(const passes::Result& r, const ir::Graph& before, bool time) {
  Answer a;
  a.json = {{"passes", nlohmann::json::array()}};
  double milliseconds = 0;
  for (const passes::Report& p : r.reports) {
    milliseconds += p.milliseconds;
    nlohmann::ordered_json j{{"pass", p.pass}, {"changed", p.changed}, {"applications", p.applications}};
    j["milliseconds"] = p.milliseconds;
    j["before"] = p.before;
    j["after"] = p.after;
    a.json["passes"].push_back(std::move(j));
    a.text += fmt::format("{:<24}", p.pass);
    if (time) a.text += fmt::format("{:>9.2f} ms  ", p.milliseconds);
    const std::string what = difference(p.before, p.after);
    a.text += !p.changed     ? "-\n"
              : what.empty() ? fmt::format("changed ({} applications)\n", p.applications)
                             : fmt::format("{}\n", what);
  }
  const auto from = passes::count_operators(before), to = passes::count_operators(r.graph);
  a.text += fmt::format("operators               {} -> {}", total(from), total(to));
  a.text += time ? fmt::format("   in {:.2f} ms\n", milliseconds) : "\n";
  a.json["operators_before"] = total(from);
  a.json["operators_after"] = total(to);
  a.json["milliseconds"] = milliseconds;
  return a;
}

Expected<Answer> find_culprit(const ir::Graph& g, const std::vector<passes::Step>& steps, const PassesFlags& o,
                              const passes::Options& options) {
  driver::InputOptions values;
  values.seed = o.seed;
  ISOMER_TRY(const std::vector<Tensor> inputs, driver::make_inputs(g, values));
  ISOMER_TRY(const auto culprit, passes::bisect(g, ops::table(), steps, options, inputs, o.rtol));
  Answer a;
  a.json = {{"seed", o.seed}, {"rtol", o.rtol}, {"kept", !culprit.has_value()}};
  if (!culprit) {
    a.text = fmt::format("outputs stay within {:g} of their largest magnitude (inputs of seed {})\n", o.rtol, o.seed);
    return a;
  }
  a.exit_code = 1;
  a.text = fmt::format("pass {} changes the outputs by {:g} at application {}, of value {} (inputs of seed {})\n",
                       culprit->pass, culprit->error, culprit->application, isomer::quoted(culprit->value), o.seed);
  a.json["pass"] = culprit->pass;
  a.json["application"] = culprit->application;
  a.json["value"] = culprit->value;
  a.json["error"] = culprit->error;
  return a;
}

Expected<Answer> run(const PassesFlags& o) {
  if (!o.passes.empty() && !o.pipeline.empty())
    return Diagnostic("E-usage", "--passes and --pipeline exclude each other; give one of them");
  ISOMER_TRY(const std::vector<passes::Step> steps,
             o.passes.empty() ? passes::find_pipeline(o.pipeline.empty() ? "inference" : o.pipeline)
                              : passes::parse_passes(o.passes));
  ISOMER_TRY(const driver::Model model, load(o.model));
  passes::Options options;
  options.verify = o.verify;
  options.dump = o.dump;
  options.disabled = o.disabled;
  if (o.stop_after >= 0) options.stop_after = o.stop_after;
  if (o.bisect) return find_culprit(model.graph, steps, o, options);
  ISOMER_TRY(const passes::Result r, passes::run(model.graph, ops::table(), steps, options));
  Answer a = report(r, model.graph, o.time);
  if (!o.out.empty()) {
    ISOMER_CHECK_OK(driver::save_model(r.graph, o.out));
    a.text += fmt::format("wrote {}\n", printable(o.out));
    a.json["out"] = o.out;
  }
  return a;
}

}  // namespace

Action declare_passes(CLI::App& app) {
  auto o = std::make_shared<PassesFlags>();
  CLI::App* list_command = app.add_subcommand("list", "List the passes and the pipelines")->fallthrough();
  CLI::App* run_command = app.add_subcommand("run", "Run passes on a model and say what they changed")->fallthrough();
  app.require_subcommand(1);
  declare_model(*run_command, o->model);
  run_command->add_option("--passes", o->passes, "Passes to run, in this order: a,b,c");
  run_command->add_option("--pipeline", o->pipeline, "Pipeline to run (standard: inference)");
  run_command->add_option("-o,--out", o->out, "Write the model: *.onnx or *.iso");
  run_command->add_option("--disable", o->disabled, "Leave a pass out")->delimiter(',');
  run_command->add_option("--dump", o->dump, "Folder for the graph text before and after each pass that changes it");
  run_command->add_option("--stop-after", o->stop_after, "Stop after so many applications, over all passes");
  run_command->add_flag("--verify", o->verify, "Check every graph against the operator records");
  run_command->add_flag("--time", o->time, "Say how long each pass took");
  run_command->add_flag("--bisect", o->bisect, "Find the application that changes the outputs in the interpreter");
  run_command->add_option("--seed", o->seed, "Seed of the inputs for --bisect");
  run_command->add_option("--rtol", o->rtol, "Error for --bisect, relative to an output's largest magnitude");
  return [o, list_command]() -> Expected<Answer> {
    if (list_command->parsed()) return list();
    return run(*o);
  };
}

}  // namespace isomer::tool
