#include "driver/pricing.h"

#ifdef ISOMER_HAS_COMPILER

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>

#include "base/clock_seconds.h"
#include "codegen/codegen.h"
#include "compile/host_program.h"
#include "cost/pricer.h"
#include "cost/store.h"
#include "driver/whole_runs.h"
#include "ops/table.h"

namespace isomer::driver {
namespace {

using Clock = std::chrono::steady_clock;

std::vector<std::string> texts(const std::vector<Diagnostic>& warnings) {
  std::vector<std::string> out;
  for (const Diagnostic& d : warnings) out.push_back(d.message);
  return out;
}

// Turns that there were between the timings of kernels, and as many as are missing; the kernels of another plan than the one
// that was priced have nothing to be put beside.
Expected<void> add_runs(WholeRuns& runs, const cost::Pricer& pricer, const std::vector<cost::KernelPrice>& kernels,
                        double seconds, Pricing& out) {
  constexpr size_t kLeastTurns = 3;
  for (const auto begin = Clock::now(); runs.turns() < kLeastTurns || seconds_since(begin) < seconds;)
    ISOMER_CHECK_OK(runs.turn());
  ISOMER_TRY(const WholeRuns::Times times, runs.times(pricer.usual(), kernels));
  out.fastest = times.fastest;
  out.median = times.median;
  out.run_seconds = times.seconds;
  if (times.steps.size() != out.kernels.size()) return {};
  for (size_t i = 0; i < times.steps.size(); ++i) out.kernels[i].run_seconds = times.steps[i];
  return {};
}

std::unique_ptr<cost::Store> open_store(const std::string& path) { return cost::Store::open(path, "isomer cost"); }

// Where a store would be when there is none: who only asks must not begin one.
std::optional<std::string> missing_store(const std::string& path) {
  const std::string file = path.empty() ? cost::standard_store() : path;
  std::error_code failed;
  return file != "-" && !std::filesystem::exists(file, failed) ? std::optional(file) : std::nullopt;
}

}  // namespace

Expected<Pricing> price_model(const ir::Graph& graph, const std::vector<Tensor>& inputs,
                              const PricingOptions& options) {
  cost::PricerOptions o;
  ISOMER_TRY(o.target, codegen::host_target());
  o.threads = options.threads;
  o.measure = !options.estimate;
  o.weights = cost::weight_reach(graph);
  o.in_context = true;
  o.store = options.estimate ? "-" : options.store;
  std::unique_ptr<WholeRuns> runs;
  o.between = [&runs] {
    if (runs) runs->turn_when_due();
  };
  ISOMER_TRY(const std::shared_ptr<cost::Pricer> pricer, cost::Pricer::make(ops::table(), o));
  Pricing out;
  out.threads = pricer->options().threads;
  if (options.run) {
    ISOMER_TRY(runs, WholeRuns::make(graph, inputs, out.threads));
  }
  const auto start = Clock::now();
  ISOMER_TRY(const cost::Price price, options.estimate ? pricer->estimate(graph) : pricer->price(graph));
  out.price_seconds = seconds_since(start);
  out.measured = price.measured;
  out.estimated = price.estimated;
  ISOMER_TRY(const std::vector<cost::KernelPrice> parts, pricer->kernels(graph));
  for (const cost::KernelPrice& k : parts) {
    out.kernels.push_back(
        {k.kernel, compile::origin_text(k.origin), k.tasks, k.flops, k.bytes, k.seconds, k.estimate, k.known, 0});
    out.seconds += k.seconds;
    out.estimate += k.estimate;
  }
  if (options.layout) {
    ISOMER_TRY(const cost::Labelling best, pricer->label(graph));
    out.labelled_seconds = best.seconds;
    for (const cost::LabelChoice& c : best.choices)
      out.labels.push_back({c.value, compile::text(c.method), c.standard, c.seconds});
  }
  out.warnings = texts(pricer->take_warnings());
  if (runs) ISOMER_CHECK_OK(add_runs(*runs, *pricer, parts, options.seconds, out));
  return out;
}

Expected<ProfileStore> show_store(const std::string& path) {
  if (const auto none = missing_store(path)) return ProfileStore{*none + " (not there yet)", 0, 0, 0, 0, 0, {}, {}};
  const auto store = open_store(path);
  ISOMER_TRY(const cost::StoreSummary s, store->summary());
  ProfileStore out{s.path, s.entries, s.key_bytes, s.file_bytes, s.oldest, s.newest, {}, {}};
  for (const auto& setting : s.settings)
    if (setting.entries > 0) out.settings.emplace_back(setting.text, setting.entries);
  out.warnings = texts(store->take_warnings());
  return out;
}

Expected<int64_t> clear_store(const std::string& path) {
  if (missing_store(path)) return 0;
  return open_store(path)->clear();
}

Expected<ProfileStore> export_store(const std::string& path, const std::string& file) {
  if (const auto none = missing_store(path))
    return Diagnostic("E-store", fmt::format("there is no profile store {} to export", isomer::quoted(*none)));
  const auto store = open_store(path);
  ISOMER_CHECK_OK(store->write_to(file));
  return show_store(file);
}

Expected<int64_t> import_store(const std::string& path, const std::string& file) {
  return open_store(path)->read_from(file);
}

}  // namespace isomer::driver

#else

#include "driver/native.h"

namespace isomer::driver {

Expected<Pricing> price_model(const ir::Graph&, const std::vector<Tensor>&, const PricingOptions&) {
  return no_generator();
}
Expected<ProfileStore> show_store(const std::string&) { return no_generator(); }
Expected<int64_t> clear_store(const std::string&) { return no_generator(); }
Expected<ProfileStore> export_store(const std::string&, const std::string&) { return no_generator(); }
Expected<int64_t> import_store(const std::string&, const std::string&) { return no_generator(); }

}  // namespace isomer::driver

#endif
