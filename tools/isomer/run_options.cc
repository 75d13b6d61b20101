#include "isomer/run_options.h"

#include <fmt/format.h>

#include <cmath>

namespace isomer::tool {

void declare_accuracy(CLI::App& app, std::string& accuracy) {
  app.add_option(
         "--accuracy", accuracy,
         "strict: products of floats are exact and summed in some order; default: fewer products by minimal filtering, "
         "floats in two parts on tile registers, where a trial on random inputs stays near the strict form; unchecked: "
         "the same without the trial")
      ->check(CLI::IsMember({"default", "strict", "unchecked"}))
      ->capture_default_str();
}

driver::Accuracy accuracy_of(const std::string& name) {
  if (name == "strict") return driver::Accuracy::Strict;
  return name == "unchecked" ? driver::Accuracy::Unchecked : driver::Accuracy::Checked;
}

nlohmann::ordered_json accuracy_json(const driver::AccuracyFacts& f) {
  const auto known = [](double d) { return d < 0 ? nlohmann::ordered_json() : nlohmann::ordered_json(d); };
  return {{"two_parts", f.used.split},        {"filtering", f.used.filtering}, {"difference", known(f.difference)},
          {"given_up_at", known(f.given_up)}, {"allowed", f.allowed},          {"not_tried", f.not_tried}};
}

void declare_run_options(CLI::App& app, RunOptions& o) {
  app.add_option("--input", o.inputs, "Value of an input: NAME=FILE (.npy, .npz, .pb or raw .bin; repeatable)")
      ->allow_extra_args(false);
  app.add_option("--seed", o.seed, "Seed of random inputs")->capture_default_str();
  app.add_option("--range", o.range, "Range of random inputs: LOW:HIGH (standard -1:1; integers 0 or 1)");
  app.add_option("--threads", o.threads, "Threads (0: one per core)")->check(CLI::Range(0, 256));
  declare_accuracy(app, o.accuracy);
  app.add_flag("--reference", o.reference, "Run in the reference interpreter instead of compiled code");
  app.add_flag("--wide", o.wide, "Keep float32 values as doubles between operators (implies --reference)");
}

Expected<driver::InputOptions> input_options(const RunOptions& o) {
  driver::InputOptions in;
  in.seed = o.seed;
  for (const std::string& text : o.inputs) {
    ISOMER_TRY(auto item, driver::parse_input(text));
    in.files[item.first] = std::move(item.second);
  }
  if (!o.range.empty()) {
    double low = 0, high = 0;
    char rest = 0;
    if (std::sscanf(o.range.c_str(), "%lf:%lf%c", &low, &high, &rest) != 2 || !std::isfinite(low) ||
        !std::isfinite(high) || low >= high)
      return Diagnostic("E-range-option",
                        fmt::format("expected a range such as -1:1, found {}", isomer::quoted(o.range)));
    in.range = std::pair(low, high);
  }
  return in;
}

driver::ExecutorOptions executor_options(const RunOptions& o) {
  driver::ExecutorOptions out;
  out.native.threads = o.threads;
  out.native.accuracy = accuracy_of(o.accuracy);
  out.reference = o.reference || o.wide;
  out.wide = o.wide;
  return out;
}

}  // namespace isomer::tool
