#include <fmt/format.h>

#include <chrono>
#include <filesystem>

#include "driver/inputs.h"
#include "driver/model.h"
#include "interp/interp.h"
#include "isomer/command.h"
#include "isomer/model_options.h"
#include "isomer/progress.h"
#include "isomer/run_options.h"
#include "ops/table.h"
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

Expected<void> write_outputs(const std::string& folder, const ir::Graph& g, const std::vector<Tensor>& outputs,
                             Answer& a) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error)
    return Diagnostic("E-write", fmt::format("folder {} cannot be made: {}", isomer::quoted(folder), error.message()));
  for (size_t i = 0; i < outputs.size(); ++i) {
    const std::string path = folder + "/" + file_name(g.outputs()[i].name, i);
    ISOMER_CHECK_OK(write_npy(path, outputs[i]));
    a.json["outputs"][i]["file"] = path;
    a.text += fmt::format("wrote {}\n", printable(path));
  }
  return {};
}

Expected<std::vector<Tensor>> run_shown(const driver::Model& model, const std::vector<Tensor>& inputs,
                                        interp::Options options) {
  Progress progress(model.source);
  options.progress = [&](size_t done, size_t total) { progress.show(done, total); };
  return interp::run(model.graph, ops::table(), inputs, options);
}

}  // namespace

Action declare_run(CLI::App& app) {
  struct Options {
    ModelOptions model;
    RunOptions run;
    std::string output_dir;
  };
  auto o = std::make_shared<Options>();
  declare_model(app, o->model);
  declare_run_options(app, o->run);
  app.add_option("--output-dir", o->output_dir, "Write every output as a .npy file into this folder");
  return [o]() -> Expected<Answer> {
    ISOMER_TRY(const driver::Model model, load(o->model));
    ISOMER_TRY(const driver::InputOptions in, input_options(o->run));
    ISOMER_TRY(const std::vector<Tensor> inputs, driver::make_inputs(model.graph, in));
    const auto start = std::chrono::steady_clock::now();
    ISOMER_TRY(const std::vector<Tensor> outputs, run_shown(model, inputs, interp_options(o->run)));
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    Answer a;
    const bool random = in.files.size() < model.graph.input_count();
    a.text = fmt::format("ran {} in the reference interpreter in {:.3f} s{}\n", printable(model.source), seconds,
                         random ? fmt::format(" on random inputs (seed {})", in.seed) : "");
    a.json = {
        {"model", model.source}, {"executor", "reference"}, {"seed", in.seed}, {"outputs", nlohmann::json::array()}};
    for (size_t i = 0; i < outputs.size(); ++i) {
      const Digest d = digest(outputs[i]);
      const std::string& name = model.graph.outputs()[i].name;
      a.text += fmt::format("{:<24}{:<24}min {:<12.6g} max {:<12.6g} mean {:<12.6g}{} [{}]\n", printable(name),
                            outputs[i].type().to_string(), d.low, d.high, d.mean,
                            d.nans ? fmt::format("{} NaN ", d.nans) : "", d.first);
      a.json["outputs"].push_back({{"name", name},
                                   {"type", outputs[i].type().to_string()},
                                   {"min", d.low},
                                   {"max", d.high},
                                   {"mean", d.mean},
                                   {"nans", d.nans},
                                   {"hash", outputs[i].content_hash().hex()}});
    }
    if (!o->output_dir.empty()) {
      ISOMER_CHECK_OK(write_outputs(o->output_dir, model.graph, outputs, a));
    }
    return a;
  };
}

}  // namespace isomer::tool
