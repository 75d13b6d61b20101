#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "driver/bench.h"
#include "driver/inputs.h"
#include "driver/model.h"
#include "driver/module_file.h"
#include "isomer/command.h"
#include "isomer/model_options.h"
#include "isomer/node_list.h"
#include "isomer/optimize_options.h"
#include "isomer/run_options.h"
#include "isomer/units.h"

namespace isomer::tool {
namespace {

struct BenchFlags {
  ModelOptions model;
  RunOptions run;
  double duration = 3;
  bool profile = false, no_check = false;
  std::string dump;
  std::string against;  // the model of a module
  std::string optimize;

  bool checked() const { return !no_check && (!driver::is_module_name(model.spec) || !against.empty()); }
};

double largest_error(const driver::BenchResult& r) {
  double out = 0;
  for (const driver::OutputError& e : r.errors) out = std::max(out, e.of_largest);
  return out;
}

std::string speed_lines(const driver::BenchResult& r) {
  std::string out = fmt::format("latency      {:>12} {:>12} {:>12} {:>12}\n", "min", "median", "p90", "p99");
  out +=
      fmt::format("             {:>12} {:>12} {:>12} {:>12}   {} runs\n", duration(r.quantile(0)),
                  duration(r.quantile(0.5)), duration(r.quantile(0.9)), duration(r.quantile(0.99)), r.latencies.size());
  out += fmt::format("throughput   {:.2f} runs/s at the median\n", 1 / r.quantile(0.5));
  if (r.flops) {
    const double rate = *r.flops / r.quantile(0.5);
    out +=
        fmt::format("arithmetic   {:.1f} GFLOP/s at the median, {:.0f}% of the {:.1f} GFLOP/s measured as the peak\n",
                    rate * 1e-9, 100 * rate / r.peak_flops, r.peak_flops * 1e-9);
  } else {
    out += "arithmetic   no multiply-accumulates that can be counted\n";
  }
  return out;
}

std::string text(const std::string& source, double load_seconds, const driver::BenchResult& r, const BenchFlags& o) {
  std::string out = fmt::format("model        {}\n", printable(source));
  out += fmt::format("time to      load {}, passes {}, compile {}, first run {}\n", duration(load_seconds),
                     duration(r.pass_seconds), duration(r.compile_seconds), duration(r.first_run_seconds));
  out += speed_lines(r);
  const driver::NativeFacts& n = r.facts.native;
  const auto size = [](uint64_t count) { return bytes(static_cast<int64_t>(count)); };
  out += fmt::format("memory       process {}, weights {}, arena {}{}\n", size(r.peak_bytes), size(n.weight_bytes),
                     size(n.arena_bytes),
                     n.least_arena_bytes ? fmt::format(" (at least {})", size(n.least_arena_bytes)) : "");
  if (n.functions)
    out += fmt::format("kernels      {} steps of {} functions in {} pieces\n", n.steps, n.functions, r.facts.pieces);
  else
    out += fmt::format("kernels      {} steps, compiled for {}\n", n.steps, printable(n.target));
  if (const std::string trial = n.accuracy.to_string(); !trial.empty()) out += fmt::format("algorithms   {}\n", trial);
  if (!o.checked())
    out += fmt::format("accuracy     not checked{}\n",
                       o.no_check ? "" : "; --against MODEL names what it was compiled from");
  else
    out +=
        fmt::format("accuracy     largest error {:.2g} of the largest magnitude, against plain loops in double ({})\n",
                    largest_error(r), duration(r.reference_seconds));
  if (!r.report.empty()) out += fmt::format("uncompiled   {}\n{}", node_counts(r.report), node_lines(r.report));
  return out;
}

std::string profile_table(const driver::BenchResult& r) {
  std::vector<driver::StepTime> steps = r.steps;
  double total = 0;
  for (const driver::StepTime& s : steps) total += s.seconds;
  std::stable_sort(steps.begin(), steps.end(), [](const auto& a, const auto& b) { return a.seconds > b.seconds; });
  std::string out = fmt::format("\n{:<24}{:>7}{:>11}{:>11}{:>10}{:>9}{:>7}  {}\n", "kernel", "share", "mean", "fastest",
                                "GFLOP/s", "GB/s", "tasks", "source nodes");
  for (const driver::StepTime& s : steps) {
    const double mean = s.runs ? s.seconds / static_cast<double>(s.runs) : 0;
    const auto rate = [&](double n) { return mean > 0 && n > 0 ? fmt::format("{:.1f}", n / mean * 1e-9) : "-"; };
    out += fmt::format("{:<24}{:>6.1f}%{:>11}{:>11}{:>10}{:>9}{:>7}  {}\n", printable(s.kernel, 23),
                       total > 0 ? 100 * s.seconds / total : 0, duration(mean), duration(s.fastest), rate(s.flops),
                       rate(s.bytes), s.tasks, printable(s.origin, 60));
  }
  return out;
}

nlohmann::ordered_json data(const std::string& source, double load_seconds, const driver::BenchResult& r,
                            const BenchFlags& o) {
  nlohmann::ordered_json j{{"model", source}, {"threads", o.run.threads}, {"seed", o.run.seed}};
  j["seconds"] = {{"load", load_seconds},
                  {"passes", r.pass_seconds},
                  {"compile", r.compile_seconds},
                  {"first_run", r.first_run_seconds}};
  j["latency"] = {{"min", r.quantile(0)},
                  {"median", r.quantile(0.5)},
                  {"p90", r.quantile(0.9)},
                  {"p99", r.quantile(0.99)},
                  {"runs", r.latencies.size()}};
  j["throughput"] = 1 / r.quantile(0.5);
  j["flops"] = r.flops ? nlohmann::ordered_json(*r.flops) : nlohmann::ordered_json();
  j["flops_per_second"] = r.flops ? nlohmann::ordered_json(*r.flops / r.quantile(0.5)) : nlohmann::ordered_json();
  j["peak_flops_per_second"] = r.peak_flops;
  j["memory"] = {{"process", r.peak_bytes},
                 {"weights", r.facts.native.weight_bytes},
                 {"arena", r.facts.native.arena_bytes},
                 {"least_arena", r.facts.native.least_arena_bytes}};
  j["steps"] = r.facts.native.steps;
  j["functions"] = r.facts.native.functions;
  j["pieces"] = r.facts.pieces;
  j["algorithms"] = accuracy_json(r.facts.native.accuracy);
  j["accuracy"] = nlohmann::json::array();
  for (const driver::OutputError& e : r.errors)
    j["accuracy"].push_back({{"output", e.name}, {"exact", e.exact}, {"error_of_largest", e.of_largest}});
  j["reference_nodes"] = node_list(r.report);
  if (!o.profile) return j;
  j["profile"] = nlohmann::json::array();
  for (const driver::StepTime& s : r.steps)
    j["profile"].push_back({{"kernel", s.kernel},
                            {"nodes", s.origin},
                            {"tasks", s.tasks},
                            {"flops", s.flops},
                            {"bytes", s.bytes},
                            {"runs", s.runs},
                            {"seconds", s.seconds},
                            {"fastest", s.fastest}});
  return j;
}

Expected<driver::BenchResult> bench_module(const BenchFlags& o, const driver::InputOptions& in,
                                           const driver::BenchOptions& options, double& load_seconds) {
  const auto start = std::chrono::steady_clock::now();
  ISOMER_TRY(const auto file, driver::ModuleFile::open(o.model.spec));
  load_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  ISOMER_TRY(const ir::Graph graph, file->input_graph());
  ISOMER_TRY(const std::vector<Tensor> inputs, driver::make_inputs(graph, in));
  if (o.against.empty()) return driver::bench_module(file, nullptr, inputs, options);
  ModelOptions source = o.model;
  source.spec = o.against;
  ISOMER_TRY(const driver::Model model, load(source));
  if (model.graph.input_count() != inputs.size() || model.graph.outputs().size() != file->outputs().size()) {
    return Diagnostic("E-interface", "the module and the model named by --against differ in their inputs or outputs");
  }
  return driver::bench_module(file, &model.graph, inputs, options);
}

Expected<driver::BenchResult> bench_model(const BenchFlags& o, const driver::InputOptions& in,
                                          const driver::BenchOptions& options, double& load_seconds) {
  const auto start = std::chrono::steady_clock::now();
  ISOMER_TRY(const driver::Model model, load(o.model));
  load_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  ISOMER_TRY(const std::vector<Tensor> inputs, driver::make_inputs(model.graph, in));
  if (o.optimize.empty()) return driver::bench(model.graph, inputs, options);
  ISOMER_TRY(const ir::Graph graph, optimized_graph(model.graph, o.optimize, o.run.threads, model.source));
  return driver::bench(graph, inputs, options);
}

}  // namespace

Action declare_bench(CLI::App& app) {
  auto o = std::make_shared<BenchFlags>();
  declare_model(app, o->model);
  declare_run_options(app, o->run);
  declare_optimize_flag(app, o->optimize);
  app.add_option("--duration", o->duration, "Seconds of timed runs")
      ->capture_default_str()
      ->check(CLI::Range(0.0, 3600.0));
  app.add_flag("--profile", o->profile, "Time, GFLOP/s and source nodes of every kernel");
  app.add_flag("--no-check", o->no_check, "Do not compare the results with the reference");
  app.add_option("--against", o->against, "For a module: the model it was compiled from, to compare results with");
  app.add_option("--dump", o->dump, "Write loops, LLVM's IR and assembly of every kernel into this folder");
  return [o]() -> Expected<Answer> {
    ISOMER_TRY(const driver::InputOptions in, input_options(o->run));
    driver::BenchOptions options;
    options.executor = executor_options(o->run);
    options.executor.native.profile = o->profile;
    options.executor.native.dump = o->dump;
    options.seconds = o->duration;
    options.check = !o->no_check;
    double load_seconds = 0;
    const bool module = driver::is_module_name(o->model.spec);
    ISOMER_TRY(const driver::BenchResult result, (module ? bench_module : bench_model)(*o, in, options, load_seconds));
    Answer a;
    a.text = text(o->model.spec, load_seconds, result, *o);
    if (o->profile) a.text += profile_table(result);
    a.json = data(o->model.spec, load_seconds, result, *o);
    return a;
  };
}

}  // namespace isomer::tool
