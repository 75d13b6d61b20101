#include <fmt/format.h>

#include "driver/compile_module.h"
#include "isomer/command.h"
#include "isomer/model_options.h"
#include "isomer/optimize_options.h"
#include "isomer/run_options.h"
#include "isomer/units.h"

namespace isomer::tool {
namespace {

constexpr size_t kMostSizes = 16;

// "batch=1,8" and "length=16,32" as the four sets that they stand for.
Expected<std::vector<std::vector<std::string>>> size_sets(const std::vector<std::string>& dims) {
  std::vector<std::vector<std::string>> sets = {{}};
  for (const std::string& dim : dims) {
    const size_t equals = dim.rfind('=');
    std::vector<std::string> choices;
    for (size_t at = equals; equals != std::string::npos && at != std::string::npos;) {
      const size_t end = dim.find(',', at + 1);
      choices.push_back(dim.substr(0, equals + 1) + dim.substr(at + 1, end == std::string::npos ? end : end - at - 1));
      at = end;
    }
    if (choices.empty()) choices.push_back(dim);
    std::vector<std::vector<std::string>> more;
    for (const auto& set : sets)
      for (const std::string& choice : choices) {
        more.push_back(set);
        more.back().push_back(choice);
      }
    if (more.size() > kMostSizes)
      return Diagnostic("E-usage",
                        fmt::format("a module has at most {} sizes, and {} were asked for", kMostSizes, more.size()));
    sets = std::move(more);
  }
  return sets;
}

}  // namespace

Action declare_compile(CLI::App& app) {
  struct Options {
    ModelOptions model;
    driver::CompileOptions compile;
    std::string out, optimize, accuracy = "default";
  };
  auto o = std::make_shared<Options>();
  declare_model(app, o->model);
  declare_optimize_flag(app, o->optimize);
  app.add_option("-o,--output", o->out, "The module to write: *.so")->required();
  app.add_option("--target", o->compile.targets,
                 "host, x86-64-v3, x86-64-v4, x86-64-v4-vnni, x86-64-v4-amx, aarch64 or aarch64-dotprod; several in "
                 "one file, best first")
      ->delimiter(',');
  app.add_option("--pipeline", o->compile.pipeline, "Graph passes that run first (isomer passes list)");
  declare_accuracy(app, o->accuracy);
  app.add_option("--compile-threads", o->compile.threads, "Threads that compile; 0: one per CPU");
  app.add_option("--dump", o->compile.dump_dir, "Write each kernel's loops, IR and assembly into this folder");
  return [o]() -> Expected<Answer> {
    o->compile.accuracy = accuracy_of(o->accuracy);
    ISOMER_TRY(const std::vector<std::vector<std::string>> sets, size_sets(o->model.dims));
    driver::Model model;
    std::vector<ir::Graph> graphs;
    for (const std::vector<std::string>& dims : sets) {
      o->model.dims = dims;
      ISOMER_TRY(model, load(o->model));
      ISOMER_TRY(ir::Graph graph, optimized_graph(model.graph, o->optimize, 0, model.source));
      graphs.push_back(std::move(graph));
    }
    ISOMER_TRY(const driver::CompileReport report, driver::compile_module(graphs, o->compile, o->out));
    Answer a;
    a.text =
        fmt::format("wrote {}: {}, of which {} are weights\n", printable(o->out),
                    bytes(static_cast<int64_t>(report.file_bytes)), bytes(static_cast<int64_t>(report.weight_bytes)));
    a.json = {{"model", model.source},
              {"file", o->out},
              {"file_bytes", report.file_bytes},
              {"weight_bytes", report.weight_bytes},
              {"variants", nlohmann::json::array()}};
    for (const auto& v : report.variants) {
      a.text +=
          fmt::format("{:<24}{} steps, {} kernels, arena {} (at least {})\n", v.target, v.steps, v.kernels,
                      bytes(static_cast<int64_t>(v.arena_bytes)), bytes(static_cast<int64_t>(v.least_arena_bytes)));
      if (!v.sizes.empty()) a.text += fmt::format("{:<24}{}\n", "", v.sizes);
      a.json["variants"].push_back({{"target", v.target},
                                    {"sizes", v.sizes},
                                    {"steps", v.steps},
                                    {"kernels", v.kernels},
                                    {"arena_bytes", v.arena_bytes},
                                    {"least_arena_bytes", v.least_arena_bytes}});
    }
    if (const std::string accuracy = report.accuracy.to_string(); !accuracy.empty())
      a.text += fmt::format("{:<24}{}\n", "accuracy", accuracy);
    a.json["accuracy"] = accuracy_json(report.accuracy);
    a.text += fmt::format(
        "passes {:.2f} s, loops {:.2f} s, machine code {:.2f} s, library {:.2f} s, trial of the accuracy {:.2f} s\n",
        report.pass_seconds, report.lower_seconds, report.code_seconds, report.link_seconds, report.trial_seconds);
    a.json["seconds"] = {{"passes", report.pass_seconds},
                         {"loops", report.lower_seconds},
                         {"code", report.code_seconds},
                         {"library", report.link_seconds},
                         {"trial", report.trial_seconds}};
    return a;
  };
}

}  // namespace isomer::tool
