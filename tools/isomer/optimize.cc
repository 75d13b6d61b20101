#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>

#include "base/clock_seconds.h"
#include "driver/considered_json.h"
#include "driver/model.h"
#include "driver/trace_file.h"
#include "isomer/command.h"
#include "isomer/model_options.h"
#include "isomer/optimize_options.h"
#include "isomer/units.h"

namespace isomer::tool {
namespace {

struct OptimizeFlags {
  ModelOptions model;
  OptimizeChoices choices;
  std::string out, trace, replay, rules;
  std::vector<std::string> inputs;
  uint64_t seed = 1;
};

std::string milliseconds(double seconds) { return seconds > 0 ? fmt::format("{:.3f} ms", seconds * 1e3) : "-"; }

// Regions may be of a few microseconds.
std::string short_time(double seconds) {
  if (seconds <= 0) return "-";
  return seconds < 1e-3 ? fmt::format("{:.1f} us", seconds * 1e6) : fmt::format("{:.3f} ms", seconds * 1e3);
}

std::string table(const driver::Figures& b, const driver::Figures& a) {
  const auto size = [](uint64_t n) { return bytes(static_cast<int64_t>(n)); };
  std::string out = fmt::format("{:<22}{:>14}{:>14}\n", "", "before", "after");
  const auto line = [&](const char* what, const std::string& x, const std::string& y, const std::string& more = "") {
    out += fmt::format("{:<22}{:>14}{:>14}{}\n", what, x, y, more);
  };
  line("operators", std::to_string(b.operators), std::to_string(a.operators));
  line("kernels", std::to_string(b.kernels), std::to_string(a.kernels));
  line("parameters", count(b.parameters), count(a.parameters));
  line("weights", size(b.weight_bytes), size(a.weight_bytes));
  line("memory of a run", size(b.arena_bytes), size(a.arena_bytes));
  line("time by the model", milliseconds(b.estimated), milliseconds(a.estimated));
  line("time by its kernels", milliseconds(b.priced), milliseconds(a.priced),
       b.priced > 0 && a.priced > 0 ? "" : "   the budget was over before all were timed");
  line("time measured", milliseconds(b.measured), milliseconds(a.measured),
       a.measured > 0 ? fmt::format("   {:.2f} times as fast", b.measured / a.measured) : "");
  return out;
}

std::string nodes_of(const search::Step& s) {
  std::vector<std::string> names;
  for (const search::Application& a : s.applications)
    for (const std::string& n : a.names)
      if (!n.empty() && std::find(names.begin(), names.end(), n) == names.end()) names.push_back(n);
  if (names.empty()) return "what the rewrites above made";
  return printable(fmt::format("{}", fmt::join(names, ", ")), 60);
}

// "merge-convs 2x, split-of-split": rules in the order they were first applied.
std::string rules_of(const search::Step& s) {
  std::vector<std::pair<std::string, int>> counts;
  for (const search::Application& a : s.applications) {
    auto it = std::find_if(counts.begin(), counts.end(), [&](const auto& c) { return c.first == a.rule; });
    if (it == counts.end()) it = counts.insert(counts.end(), {a.rule, 0});
    ++it->second;
  }
  std::string out;
  for (const auto& [rule, n] : counts) out += (out.empty() ? "" : ", ") + rule + (n > 1 ? fmt::format(" {}x", n) : "");
  return out;
}

std::string rewrites(const driver::Optimized& r) {
  std::string out;
  for (const search::Step& s : r.steps) {
    out += fmt::format("{} -> {}{}  {}\n", milliseconds(s.before), milliseconds(s.after),
                       s.repeated ? " (as above)" : "", rules_of(s));
    out += fmt::format("    at {}\n", nodes_of(s));
  }
  for (const auto& [name, use] : r.rules)
    out += fmt::format("rule {:<40} {}, proof: {}\n", name, use.numeric, use.proof);
  return out;
}

std::string why_not(const search::LeftCase& c) {
  const std::string percent = fmt::format("{:.1f}%", 100 * std::abs(c.change));
  switch (c.why) {
    case search::WhyNot::Slower: return percent == "0.0%" ? "priced the same" : "priced " + percent + " slower";
    case search::WhyNot::Same: return "the compiler makes the same kernels";
    case search::WhyNot::Small: return "priced " + percent + " faster: less than timings can tell";
    case search::WhyNot::Unsure: return "priced " + percent + " faster, not confirmed by a second look";
    case search::WhyNot::Outdone: return "another rewrite gains more there";
    case search::WhyNot::Doubtful: return "estimated " + percent + " slower: not priced";
    case search::WhyNot::Crowded: return "others were estimated to be better: not priced";
    case search::WhyNot::NoTime: return "no time was left to price or to judge it";
    case search::WhyNot::NoPrice: return "the compiler cannot take it";
    case search::WhyNot::Timed: return "priced " + percent + " faster, not faster in whole runs";
  }
  return "";
}

constexpr size_t kRulesShown = 12;

std::string considered(const std::vector<search::Considered>& all) {
  if (all.empty()) return "";
  std::string out = fmt::format("considered, not taken\n{:<46}{:>7}{:>12}{:>12}  {}\n", "rule", "places", "region",
                                "at best", "why not");
  for (size_t k = 0; k < all.size() && k < kRulesShown; ++k) {
    const search::LeftCase& best = all[k].best.front();
    out += fmt::format("{:<46}{:>7}{:>12}{:>12}  {}{}\n", all[k].rule,
                       all[k].places > 0 ? std::to_string(all[k].places) : "-", short_time(best.before),
                       short_time(best.best), why_not(best),
                       best.with.empty() ? "" : fmt::format(" (with {})", fmt::join(best.with, ", ")));
  }
  if (all.size() > kRulesShown) out += fmt::format("and {} more rules: --json lists them\n", all.size() - kRulesShown);
  return out;
}

std::string culprit_text(const driver::Culprit& c) {
  if (c.application == 0)
    return fmt::format(
        "the model as the passes leave it differs from the original by {:.2g} of the largest magnitude; no "
        "rewrite is to blame",
        c.error);
  return fmt::format("application {} is wrong: rule {} at {}{}", c.application, isomer::quoted(c.rule),
                     printable(fmt::format("{}", fmt::join(c.nodes, ", ")), 80),
                     c.by_field
                         ? ", shown at the model's attributes over a prime field"
                         : fmt::format(", after which outputs are off by {:.2g} of the largest magnitude", c.error));
}

Answer refused(const driver::Optimized& r) {
  Answer a;
  a.exit_code = 1;
  a.text = "nothing is written: " + culprit_text(*r.culprit) + "\n";
  a.json = {{"written", false},
            {"culprit",
             {{"application", r.culprit->application},
              {"rule", r.culprit->rule},
              {"nodes", r.culprit->nodes},
              {"error", r.culprit->error},
              {"by_field", r.culprit->by_field}}}};
  return a;
}

nlohmann::ordered_json data(const driver::Figures& f) {
  return {{"operators", f.operators},       {"kernels", f.kernels},          {"parameters", f.parameters},
          {"weight_bytes", f.weight_bytes}, {"arena_bytes", f.arena_bytes},  {"estimated_seconds", f.estimated},
          {"priced_seconds", f.priced},     {"measured_seconds", f.measured}};
}

nlohmann::ordered_json data(const driver::Optimized& r, const std::string& source) {
  nlohmann::ordered_json j{{"model", source},          {"changed", r.changed},   {"why_not", r.why_not},
                           {"before", data(r.before)}, {"after", data(r.after)}, {"assumed_sizes", r.assumed}};
  const search::Statistics& s = r.statistics;
  j["search"] = {{"seconds", s.seconds},       {"complete", s.complete},
                 {"regions", s.regions},       {"repeated", s.repeated},
                 {"priced", s.priced},         {"expanded", s.expanded},
                 {"duplicates", s.duplicates}, {"estimated", s.estimated},
                 {"refused", s.refused},       {"kernels_measured", r.kernels_measured},
                 {"remembered", r.remembered}};
  j["checked"] = r.checked > 0 ? nlohmann::ordered_json(day(r.checked)) : nullptr;
  j["labels"] = r.labelled;
  j["untried"] = r.untried;
  j["input_sets"] = r.input_sets;
  j["tested_over_field"] = r.tested;
  j["untested"] = r.untested;
  j["accuracy"] = nlohmann::json::array();
  for (const driver::OutputError& e : r.errors)
    j["accuracy"].push_back({{"output", e.name}, {"exact", e.exact}, {"error_of_largest", e.of_largest}});
  for (const driver::OutputError& e : r.own_errors)
    j["accuracy_of_floats"].push_back({{"output", e.name}, {"exact", e.exact}, {"error_of_largest", e.of_largest}});
  j["rewrites"] = nlohmann::json::array();
  for (const search::Step& step : r.steps) {
    nlohmann::ordered_json applied = nlohmann::json::array();
    for (const search::Application& a : step.applications)
      applied.push_back({{"rule", a.rule}, {"nodes", a.names}, {"proof", r.rules.at(a.rule).proof}});
    j["rewrites"].push_back(
        {{"before", step.before}, {"after", step.after}, {"repeated", step.repeated}, {"applications", applied}});
  }
  j["considered"] = driver::to_json(r.considered);
  return j;
}

std::string text(const driver::Optimized& r, const std::string& source) {
  std::string out = fmt::format("model        {}\n", printable(source));
  for (const auto& [name, size] : r.assumed)
    out += fmt::format("open size    {} stays open; it was priced and checked as {} (--dim {}=N fixes it)\n", name,
                       size, name);
  const search::Statistics& s = r.statistics;
  if (r.remembered) out += "search       remembered by the store; --fresh searches again\n";
  if (s.priced > 0)
    out += fmt::format("search       {:.1f} s, {} graphs priced, {} estimated, {} regions and {} equal ones{}\n",
                       s.seconds, s.priced, s.estimated, s.regions, s.repeated,
                       s.complete ? "" : "; stopped by its budget");
  out += table(r.before, r.after);
  if (!r.changed) out += fmt::format("unchanged    {}\n", r.why_not);
  out += rewrites(r);
  out += considered(r.considered);
  if (r.labelled > 0)
    out += fmt::format("labels       {} values have a layout or an algorithm chosen for them\n", r.labelled);
  if (r.untried > 0)
    out += fmt::format("untried      {} groups of operators as the compiler has them: no time was left for others\n",
                       r.untried);
  if (r.tested + r.untested > 0)
    out +=
        fmt::format("rewrites     {} tested over a prime field, {} have no arithmetic there\n", r.tested, r.untested);
  if (r.checked > 0)
    out +=
        fmt::format("checked      on {}: the same model, inputs and result, byte for byte; --fresh runs them again\n",
                    day(r.checked));
  out += fmt::format(
      "accuracy     largest error {:.2g} of the largest magnitude, against the original in double, on {} set{} of "
      "inputs\n",
      driver::worst(r.errors), r.input_sets, r.input_sets == 1 ? "" : "s");
  if (!r.own_errors.empty())
    out += fmt::format(
        "rounding     the original in floats has an error of {:.2g} there itself, so that more than the tolerance was "
        "allowed\n",
        driver::worst(r.own_errors));
  return out;
}

// Before a minute is spent on what cannot be written.
Expected<void> can_write(const std::string& file) {
  const std::string folder = std::filesystem::path(file).parent_path().string();
  if (file.empty() || access(folder.empty() ? "." : folder.c_str(), W_OK) == 0) return {};
  return Diagnostic("E-file", fmt::format("cannot write {}: {}", isomer::quoted(file), std::strerror(errno)));
}

Expected<Answer> run(const OptimizeFlags& o) {
  ISOMER_CHECK_OK(can_write(o.out));
  ISOMER_CHECK_OK(can_write(o.trace));
  const double begin = clock_seconds(CLOCK_MONOTONIC);
  ISOMER_TRY(const driver::Model model, load(o.model));
  ISOMER_TRY(driver::OptimizeOptions options, optimize_options(o.choices));
  options.file_seconds = 2 * (clock_seconds(CLOCK_MONOTONIC) - begin);  // what was read is written again
  options.rules = o.rules;
  options.inputs.seed = o.seed;
  for (const std::string& input : o.inputs) {
    ISOMER_TRY(auto item, driver::parse_input(input));
    options.inputs.files[item.first] = std::move(item.second);
  }
  driver::Trace given;
  if (!o.replay.empty()) {
    ISOMER_TRY(given, driver::load_trace(o.replay));
    options.replay = &given.steps;
    options.replay_labels = given.labels;
  }
  ISOMER_TRY(const driver::Optimized result, optimize_with_progress(model.graph, options, model.source));
  print_warnings(result.warnings);
  if (result.culprit) return refused(result);
  Answer a;
  a.text = text(result, model.source);
  a.json = data(result, model.source);
  a.json["seed"] = o.seed;
  if (!o.out.empty()) {
    ISOMER_CHECK_OK(driver::save_model(result.graph, o.out));
    a.text += fmt::format("wrote {}\n", printable(o.out));
    a.json["out"] = o.out;
  }
  if (!o.trace.empty()) {
    ISOMER_CHECK_OK(driver::save_trace(driver::trace_of(model.source, result), o.trace));
    a.text += fmt::format("wrote {}\n", printable(o.trace));
    a.json["trace"] = o.trace;
  }
  return a;
}

}  // namespace

Action declare_optimize(CLI::App& app) {
  auto o = std::make_shared<OptimizeFlags>();
  declare_model(app, o->model);
  app.add_option("-o,--out", o->out, "Write the optimised model (.onnx or .iso)");
  declare_optimize_options(app, o->choices);
  app.add_option("--rules", o->rules, "A .rules file or a folder of them in place of the library");
  app.add_option("--input", o->inputs,
                 "Value of an input for a second check beside the random one: NAME=FILE (.npy, .npz, .pb or raw .bin; "
                 "repeatable)")
      ->allow_extra_args(false);
  app.add_option("--seed", o->seed, "Seed of the check's random inputs")->capture_default_str();
  app.add_option("--trace", o->trace, "Write every step as JSON");
  app.add_option("--replay", o->replay, "Make the steps of this trace in place of a search");
  return [o] { return run(*o); };
}

}  // namespace isomer::tool
