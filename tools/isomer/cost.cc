#include <fmt/format.h>

#include <algorithm>

#include "driver/inputs.h"
#include "driver/pricing.h"
#include "isomer/command.h"
#include "isomer/model_options.h"
#include "isomer/units.h"

namespace isomer::tool {
namespace {

struct CostFlags {
  ModelOptions model;
  driver::PricingOptions pricing;
  std::string store, file;
  bool all = false;
};

std::string kernel_table(const driver::Pricing& p, bool all) {
  constexpr size_t kShown = 20;
  std::vector<driver::PricedKernel> kernels = p.kernels;
  std::stable_sort(kernels.begin(), kernels.end(), [](const auto& a, const auto& b) { return a.seconds > b.seconds; });
  const bool ran = p.fastest > 0;
  std::string out = fmt::format("\n{:<14}{:>7}{:>12}{:>12}{}{:>7}  {}\n", "kernel", "share", "predicted", "analytic",
                                ran ? fmt::format("{:>12}", "in the run") : "", "tasks", "source nodes");
  for (size_t i = 0; i < kernels.size() && (all || i < kShown); ++i) {
    const driver::PricedKernel& k = kernels[i];
    out += fmt::format("{:<14}{:>6.1f}%{:>12}{:>12}{}{:>7}  {}\n", printable(k.kernel, 13),
                       p.seconds > 0 ? 100 * k.seconds / p.seconds : 0, k.known ? duration(k.seconds) : "-",
                       duration(k.estimate),
                       ran ? fmt::format("{:>12}", k.run_seconds > 0 ? duration(k.run_seconds) : "-") : "", k.tasks,
                       printable(k.origin, 60));
  }
  if (!all && kernels.size() > kShown)
    out += fmt::format("... and {} more; --all shows them\n", kernels.size() - kShown);
  return out;
}

std::string label_table(const driver::Pricing& p) {
  std::string out = fmt::format("labelled     {} with the best layouts and algorithms\n\n{:<28}{:>12}{:>12}  {}\n",
                                duration(p.labelled_seconds), "algorithm", "compiler's", "labelled", "value");
  for (const driver::LabelGain& g : p.labels)
    out += fmt::format("{:<28}{:>12}{:>12}  {}\n", g.algorithm, duration(g.standard), duration(g.seconds),
                       printable(g.value, 60));
  return out;
}

nlohmann::ordered_json data(const std::string& source, const driver::Pricing& p) {
  nlohmann::ordered_json j{
      {"model", source},        {"threads", p.threads},     {"seconds", p.seconds},        {"estimate", p.estimate},
      {"measured", p.measured}, {"estimated", p.estimated}, {"priced_in", p.price_seconds}};
  j["run"] = p.fastest > 0
                 ? nlohmann::ordered_json{{"seconds", p.run_seconds}, {"min", p.fastest}, {"median", p.median}}
                 : nullptr;
  if (p.labelled_seconds > 0) {
    j["labelled_seconds"] = p.labelled_seconds;
    j["labels"] = nlohmann::json::array();
    for (const driver::LabelGain& g : p.labels)
      j["labels"].push_back(
          {{"value", g.value}, {"algorithm", g.algorithm}, {"standard", g.standard}, {"seconds", g.seconds}});
  }
  j["kernels"] = nlohmann::json::array();
  for (const driver::PricedKernel& k : p.kernels)
    j["kernels"].push_back({{"kernel", k.kernel},
                            {"nodes", k.origin},
                            {"tasks", k.tasks},
                            {"flops", k.flops},
                            {"bytes", k.bytes},
                            {"seconds", k.seconds},
                            {"estimate", k.estimate},
                            {"known", k.known},
                            {"run_seconds", k.run_seconds}});
  return j;
}

Expected<Answer> show_model(const CostFlags& o) {
  ISOMER_TRY(const driver::Model model, load(o.model));
  std::vector<Tensor> inputs;
  if (o.pricing.run) {
    ISOMER_TRY(inputs, driver::make_inputs(model.graph, {}));
  }
  ISOMER_TRY(const driver::Pricing p, driver::price_model(model.graph, inputs, o.pricing));
  print_warnings(p.warnings);
  Answer a;
  a.text = fmt::format("model        {}\n", printable(model.source));
  if (!o.pricing.estimate)
    a.text += fmt::format("predicted    {} on {} threads: {} steps, {} kernels timed now, {} steps estimated\n",
                          duration(p.seconds), p.threads, p.kernels.size(), p.measured, p.estimated);
  a.text += fmt::format("analytic     {}\n", duration(p.estimate));
  if (p.fastest > 0)
    a.text += fmt::format(
        "measured     {} at the usual rate of the core, as predicted: {:+.1f}%; on the clock {} at best, {} at the "
        "median\n",
        duration(p.run_seconds), 100 * ((o.pricing.estimate ? p.estimate : p.seconds) / p.run_seconds - 1),
        duration(p.fastest), duration(p.median));
  a.text += fmt::format("priced in    {}\n", duration(p.price_seconds));
  if (o.pricing.layout) a.text += label_table(p);
  a.text += kernel_table(p, o.all);
  a.json = data(model.source, p);
  return a;
}

nlohmann::ordered_json data(const driver::ProfileStore& s) {
  nlohmann::ordered_json j{{"store", s.path},          {"entries", s.entries},
                           {"key_bytes", s.key_bytes}, {"file_bytes", s.file_bytes},
                           {"oldest", s.oldest},       {"newest", s.newest}};
  j["settings"] = nlohmann::json::array();
  for (const auto& [text, entries] : s.settings) j["settings"].push_back({{"setting", text}, {"entries", entries}});
  return j;
}

Expected<Answer> show_store(const CostFlags& o) {
  ISOMER_TRY(const driver::ProfileStore s, driver::show_store(o.store));
  print_warnings(s.warnings);
  Answer a;
  a.text = fmt::format("store        {}\n", s.path.empty() ? "none: times are kept in memory" : printable(s.path));
  a.text += fmt::format("entries      {} in {}, used {} to {}\n", count(s.entries), bytes(s.file_bytes), day(s.oldest),
                        day(s.newest));
  for (const auto& [setting, entries] : s.settings)
    a.text += fmt::format("{:>12} {}\n", count(entries), printable(setting, 200));
  a.json = data(s);
  return a;
}

Expected<Answer> clear(const CostFlags& o) {
  ISOMER_TRY(const int64_t gone, driver::clear_store(o.store));
  Answer a;
  a.text = fmt::format("{} times are forgotten\n", gone);
  a.json = {{"cleared", gone}};
  return a;
}

Expected<Answer> write(const CostFlags& o) {
  ISOMER_TRY(const driver::ProfileStore s, driver::export_store(o.store, o.file));
  Answer a;
  a.text = fmt::format("wrote {}: {} times, {}\n", printable(o.file), s.entries, bytes(s.file_bytes));
  a.json = data(s);
  return a;
}

Expected<Answer> read(const CostFlags& o) {
  ISOMER_TRY(const int64_t fresh, driver::import_store(o.store, o.file));
  Answer a;
  a.text = fmt::format("{} times are new\n", fresh);
  a.json = {{"imported", fresh}};
  return a;
}

}  // namespace

Action declare_cost(CLI::App& app) {
  auto o = std::make_shared<CostFlags>();
  app.add_option("--store", o->store,
                 "The file of measured times; standard: kernels.db in $ISOMER_STORE, $XDG_CACHE_HOME/isomer or "
                 "~/.cache/isomer; -: none");
  CLI::App* show =
      app.add_subcommand("show", "A model's price by kernel, or without a model what the store holds")->fallthrough();
  show->add_option("MODEL", o->model.spec, "An .onnx or .iso file, or zoo:NAME");
  declare_bindings(*show, o->model);
  show->add_option("--threads", o->pricing.threads, "Threads of a run; 0: one per core")->check(CLI::Range(0, 256));
  show->add_flag("--estimate", o->pricing.estimate, "By the analytic model alone: nothing is timed");
  show->add_flag("--layout", o->pricing.layout,
                 "Also the price with the best layouts and algorithms, and where they are not the compiler's own");
  show->add_flag("--measure", o->pricing.run, "Run the model too, and show what it and its kernels take");
  show->add_option("--duration", o->pricing.seconds, "Seconds of timed runs")
      ->capture_default_str()
      ->check(CLI::Range(0.0, 3600.0));
  show->add_flag("--all", o->all, "Show all kernels, not only the twenty that cost most");
  CLI::App* clear_command = app.add_subcommand("clear", "Forget all measured times")->fallthrough();
  CLI::App* export_command = app.add_subcommand("export", "Write the store as a new file")->fallthrough();
  export_command->add_option("FILE", o->file, "The file")->required();
  CLI::App* import_command = app.add_subcommand("import", "Take over the times of an exported file")->fallthrough();
  import_command->add_option("FILE", o->file, "The file")->required();
  app.require_subcommand(1);
  return [=]() -> Expected<Answer> {
    o->pricing.store = o->store;
    if (show->parsed()) return o->model.spec.empty() ? show_store(*o) : show_model(*o);
    if (clear_command->parsed()) return clear(*o);
    return export_command->parsed() ? write(*o) : read(*o);
  };
}

}  // namespace isomer::tool
