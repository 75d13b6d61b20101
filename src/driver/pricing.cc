#include "driver/pricing.h"

#ifdef ISOMER_HAS_COMPILER

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>

#include "codegen/codegen.h"
#include "compile/host_program.h"
#include "cost/pricer.h"
#include "cost/store.h"
#include "driver/executor.h"
#include "ops/table.h"

namespace isomer::driver {
namespace {

using Clock = std::chrono::steady_clock;
double since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

std::vector<std::string> texts(const std::vector<Diagnostic>& warnings) {
  std::vector<std::string> out;
  for (const Diagnostic& d : warnings) out.push_back(d.message);
  return out;
}

Expected<void> add_runs(const ir::Graph& graph, const std::vector<Tensor>& inputs, const PricingOptions& options,
                        Pricing& out) {
  ExecutorOptions o;
  o.native.threads = options.threads;
  o.native.accuracy = Accuracy::Unchecked;  // as the kernels that are priced
  ISOMER_TRY(Executor plain, Executor::make(graph, o));
  ISOMER_CHECK_OK(plain.run(inputs));
  std::vector<double> times;
  for (const auto begin = Clock::now(); times.size() < 5 || since(begin) < options.seconds / 2;) {
    const auto start = Clock::now();
    ISOMER_CHECK_OK(plain.run(inputs));
    times.push_back(since(start));
  }
  std::sort(times.begin(), times.end());
  out.fastest = times.front();
  out.median = times[times.size() / 2];
  o.native.profile = true;
  ISOMER_TRY(Executor profiled, Executor::make(graph, o));
  size_t runs = 0;
  for (const auto begin = Clock::now(); runs < 5 || since(begin) < options.seconds / 2; ++runs)
    ISOMER_CHECK_OK(profiled.run(inputs));
  const std::vector<StepTime> steps = profiled.times();
  if (steps.size() != out.kernels.size()) return {};  // not the plan that was priced: nothing to put side by side
  for (size_t i = 0; i < steps.size(); ++i) out.kernels[i].fastest = steps[i].fastest;
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
  o.far_weights = cost::has_far_weights(graph);
  o.in_context = true;
  o.store = options.estimate ? "-" : options.store;
  const auto start = Clock::now();
  ISOMER_TRY(const std::shared_ptr<cost::Pricer> pricer, cost::Pricer::make(ops::table(), o));
  Pricing out;
  out.threads = pricer->options().threads;
  ISOMER_TRY(const cost::Price price, options.estimate ? pricer->estimate(graph) : pricer->price(graph));
  out.price_seconds = since(start);
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
  if (options.run) ISOMER_CHECK_OK(add_runs(graph, inputs, options, out));
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

namespace isomer::driver {
namespace {
Diagnostic no_generator() { return {"E-no-compiler", "this Isomer was built without a code generator (ISOMER_LLVM)"}; }
}  // namespace

Expected<Pricing> price_model(const ir::Graph&, const std::vector<Tensor>&, const PricingOptions&) {
  return no_generator();
}
Expected<ProfileStore> show_store(const std::string&) { return no_generator(); }
Expected<int64_t> clear_store(const std::string&) { return no_generator(); }
Expected<ProfileStore> export_store(const std::string&, const std::string&) { return no_generator(); }
Expected<int64_t> import_store(const std::string&, const std::string&) { return no_generator(); }

}  // namespace isomer::driver

#endif
