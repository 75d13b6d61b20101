#include <fmt/format.h>

#include <chrono>
#include <filesystem>

#include "driver/executor.h"
#include "driver/inputs.h"
#include "driver/model.h"
#include "driver/module_file.h"
#include "isomer/command.h"
#include "isomer/model_options.h"
#include "isomer/node_list.h"
#include "isomer/optimize_options.h"
#include "isomer/progress.h"
#include "isomer/run_options.h"
#include "tensor/npy.h"

namespace isomer::tool {
namespace {

// A name from a model as a file name: nothing but letters, digits, '.', '_' and '-', never empty, never too long.
std::string file_name(const std::string& name, size_t index) {
  std::string out;
  for (char c : name.substr(0, 100))
    out += std::isalnum(static_cast<unsigned char>(c)) || c == '.' || c == '_' || c == '-' ? c : '_';
  if (out.empty() || out[0] == '.') out = fmt::format("output_{}{}", index, out);
  return out + ".npy";
}

// Extremes and mean of a tensor, and its first elements.
struct Digest {
  double low = 0, high = 0, mean = 0;
  int64_t nans = 0;
  std::string first;
};

Digest digest(const Tensor& t) {
  Digest d;
  int64_t counted = 0;
  for (int64_t i = 0; i < t.size(); ++i) {
    const double v = t.real(i);
    if (i < 6) d.first += fmt::format("{}{:.6g}", i ? ", " : "", v);
    if (v != v) {
      ++d.nans;
      continue;
    }
    d.low = counted == 0 ? v : std::min(d.low, v);
    d.high = counted == 0 ? v : std::max(d.high, v);
    d.mean += v;
    ++counted;
  }
  if (counted) d.mean /= static_cast<double>(counted);
  if (t.size() > 6) d.first += ", ...";
  return d;
}

// What ran, on what, and what came out.
struct Ran {
  std::string source, executor, executor_text;
  std::vector<std::string> names;  // of the outputs
  std::vector<Tensor> outputs;
  double seconds = 0;
  bool random = false;  // some inputs were made up
  nlohmann::ordered_json more = nlohmann::ordered_json::object();
};

Expected<void> write_outputs(const std::string& folder, const Ran& ran, Answer& a) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error)
    return Diagnostic("E-write", fmt::format("folder {} cannot be made: {}", isomer::quoted(folder), error.message()));
  for (size_t i = 0; i < ran.outputs.size(); ++i) {
    const std::string path = folder + "/" + file_name(ran.names[i], i);
    ISOMER_CHECK_OK(write_npy(path, ran.outputs[i]));
    a.json["outputs"][i]["file"] = path;
    a.text += fmt::format("wrote {}\n", printable(path));
  }
  return {};
}

Answer answer(const Ran& ran, uint64_t seed) {
  Answer a;
  a.text = fmt::format("ran {} {} in {:.3f} s{}\n", printable(ran.source), ran.executor_text, ran.seconds,
                       ran.random ? fmt::format(" on random inputs (seed {})", seed) : "");
  a.json = {{"model", ran.source}, {"executor", ran.executor}, {"seed", seed}, {"outputs", nlohmann::json::array()}};
  if (!ran.more.empty()) a.json.update(ran.more);
  for (size_t i = 0; i < ran.outputs.size(); ++i) {
    const Tensor& t = ran.outputs[i];
    const Digest d = digest(t);
    a.text +=
        fmt::format("{:<24}{:<24}min {:<12.6g} max {:<12.6g} mean {:<12.6g}{} [{}]\n", printable(ran.names[i]),
                    t.type().to_string(), d.low, d.high, d.mean, d.nans ? fmt::format("{} NaN ", d.nans) : "", d.first);
    a.json["outputs"].push_back({{"name", ran.names[i]},
                                 {"type", t.type().to_string()},
                                 {"min", d.low},
                                 {"max", d.high},
                                 {"mean", d.mean},
                                 {"nans", d.nans},
                                 {"hash", t.content_hash().hex()}});
  }
  return a;
}

// "compiled", and how much of the model is not.
std::string how(const driver::ExecutorFacts& facts, const std::vector<driver::NodeReport>& report) {
  if (facts.pieces == 0) return "by reference kernels alone";
  std::string out =
      fmt::format("compiled (in {:.2f} s, {} kernels)", facts.pass_seconds + facts.compile_seconds, facts.native.steps);
  if (!report.empty()) out += fmt::format(", {},", node_counts(report));
  return out;
}

Expected<Ran> run_model(const ModelOptions& model_options, const RunOptions& run_options,
                        const driver::InputOptions& in, const std::string& optimize) {
  ISOMER_TRY(driver::Model model, load(model_options));
  ISOMER_TRY(model.graph, optimized_graph(model.graph, optimize, run_options.threads, model.source));
  ISOMER_TRY(const std::vector<Tensor> inputs, driver::make_inputs(model.graph, in));
  driver::ExecutorOptions options = executor_options(run_options);
  Progress progress(model.source);
  options.progress = [&](size_t done, size_t total) { progress.show(done, total); };
  ISOMER_TRY(driver::Executor executor, driver::Executor::make(model.graph, options));
  ISOMER_CHECK_OK(executor.prepare(inputs));
  Ran ran{model.source, "reference", "in the reference interpreter", {}, {}, 0, in.files.size() < inputs.size(), {}};
  const auto start = std::chrono::steady_clock::now();
  ISOMER_TRY(ran.outputs, executor.run(inputs));
  ran.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  for (const auto& output : model.graph.outputs()) ran.names.push_back(output.name);
  if (options.reference) return ran;
  const driver::ExecutorFacts facts = executor.facts();
  const std::vector<driver::NodeReport> report = executor.report();
  ran.executor = "compiled";
  ran.executor_text = how(facts, report);
  ran.more = {{"compile_seconds", facts.pass_seconds + facts.compile_seconds}, {"reference_nodes", node_list(report)}};
  return ran;
}

Expected<Ran> run_module(const ModelOptions& model_options, int threads, const driver::InputOptions& in) {
  if (!model_options.shapes.empty() || !model_options.dims.empty()) {
    return Diagnostic("E-module",
                      "A module has the sizes it was compiled with; --shape and --dim belong to isomer compile.");
  }
  ISOMER_TRY(const auto file, driver::ModuleFile::open(model_options.spec));
  ISOMER_TRY(const ir::Graph graph, file->input_graph());
  ISOMER_TRY(const std::vector<Tensor> inputs, driver::make_inputs(graph, in));
  ISOMER_TRY(driver::ModuleRun run, driver::ModuleRun::make(file, threads));
  Ran ran{model_options.spec,
          "module",
          fmt::format("as compiled for {}", file->info().target),
          {},
          {},
          0,
          in.files.size() < inputs.size(),
          {}};
  const auto start = std::chrono::steady_clock::now();
  ISOMER_TRY(ran.outputs, run.run(inputs));
  ran.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  for (const auto& output : file->outputs()) ran.names.push_back(output.name);
  return ran;
}

}  // namespace

Action declare_run(CLI::App& app) {
  struct Options {
    ModelOptions model;
    RunOptions run;
    std::string output_dir, optimize;
  };
  auto o = std::make_shared<Options>();
  declare_model(app, o->model);
  declare_run_options(app, o->run);
  declare_optimize_flag(app, o->optimize);
  app.add_option("--output-dir", o->output_dir, "Write every output as a .npy file into this folder");
  return [o]() -> Expected<Answer> {
    ISOMER_TRY(const driver::InputOptions in, input_options(o->run));
    if (driver::is_module_name(o->model.spec) && !o->model.outputs.empty())
      return Diagnostic("E-usage", "a module has the outputs it was compiled with: give --outputs to compile");
    ISOMER_TRY(const Ran ran, driver::is_module_name(o->model.spec) ? run_module(o->model, o->run.threads, in)
                                                                    : run_model(o->model, o->run, in, o->optimize));
    Answer a = answer(ran, in.seed);
    if (!o->output_dir.empty()) {
      ISOMER_CHECK_OK(write_outputs(o->output_dir, ran, a));
    }
    return a;
  };
}

}  // namespace isomer::tool
