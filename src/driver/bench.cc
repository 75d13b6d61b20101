#include "driver/bench.h"

#include <sys/resource.h>

#include <algorithm>
#include <chrono>

#include "base/clock_seconds.h"
#include "base/peak.h"
#include "driver/piece.h"
#include "driver/summary.h"
#include "tensor/compare.h"

namespace isomer::driver {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kLeastRuns = 5;

uint64_t peak_memory() {
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<uint64_t>(usage.ru_maxrss) * 1024;
}

std::optional<double> arithmetic(const ir::Graph& graph, const std::vector<Tensor>& inputs) {
  std::vector<Type> types;
  for (const Tensor& t : inputs) types.push_back(t.type());
  const auto sized = specialise(graph, types, {});
  const auto macs = sized.ok() ? summarise(*sized).macs : std::nullopt;
  return macs && *macs > 0 ? std::optional(2.0 * static_cast<double>(*macs)) : std::nullopt;
}

Expected<void> measure_errors(const ir::Graph& graph, const std::vector<Tensor>& inputs,
                              const std::vector<Tensor>& found, const BenchOptions& options, BenchResult& out) {
  ExecutorOptions naive = options.executor;
  naive.native.naive = true;
  naive.native.profile = false;
  naive.optimise = false;
  naive.reference = false;
  const auto start = Clock::now();
  ISOMER_TRY(Executor executor, Executor::make(graph, naive));
  ISOMER_TRY(const std::vector<Tensor> expected, executor.run(inputs));
  out.reference_seconds = seconds_since(start);
  for (size_t i = 0; i < found.size(); ++i) {
    const Comparison c = compare(found[i], expected[i]);
    OutputError e{graph.outputs()[i].name, c.error_of_largest, !is_float(found[i].dtype())};
    if (!c.comparable || c.special_mismatches > 0) e.of_largest = 1e30;
    if (e.exact && c.elements > 0) e.of_largest = static_cast<double>(c.mismatches) / static_cast<double>(c.elements);
    out.errors.push_back(std::move(e));
  }
  return {};
}

template <class Run>
Expected<void> time_runs(double seconds, BenchResult& out, const Run& run) {
  const auto begin = Clock::now();
  while (out.latencies.size() < kLeastRuns || seconds_since(begin) < seconds) {
    const auto start = Clock::now();
    ISOMER_CHECK_OK(run());
    out.latencies.push_back(seconds_since(start));
  }
  std::sort(out.latencies.begin(), out.latencies.end());
  out.peak_bytes = peak_memory();
  return {};
}

}  // namespace

double BenchResult::quantile(double q) const {
  if (latencies.empty()) return 0;
  const auto last = static_cast<double>(latencies.size() - 1);
  return latencies[static_cast<size_t>(q * last + 0.5)];
}

Expected<BenchResult> bench(const ir::Graph& graph, const std::vector<Tensor>& inputs, const BenchOptions& options) {
  BenchResult out;
  ISOMER_TRY(Executor executor, Executor::make(graph, options.executor));
  ISOMER_CHECK_OK(executor.prepare(inputs));
  const auto start = Clock::now();
  ISOMER_TRY(std::vector<Tensor> outputs, executor.run(inputs));
  out.first_run_seconds = seconds_since(start);
  ISOMER_CHECK_OK(time_runs(options.seconds, out, [&]() -> Expected<void> {
    ISOMER_TRY(outputs, executor.run(inputs));
    return {};
  }));
  out.facts = executor.facts();
  out.pass_seconds = out.facts.pass_seconds;
  out.compile_seconds = out.facts.compile_seconds;
  out.report = executor.report();
  out.steps = executor.times();
  out.flops = arithmetic(graph, inputs);
  out.peak_flops = measure_peak_flops(options.executor.native.threads);
  if (options.check) ISOMER_CHECK_OK(measure_errors(graph, inputs, outputs, options, out));
  return out;
}

Expected<BenchResult> bench_module(const std::shared_ptr<const ModuleFile>& file, const ir::Graph* model,
                                   const std::vector<Tensor>& inputs, const BenchOptions& options) {
  BenchResult out;
  ISOMER_TRY(ModuleRun run,
             ModuleRun::make(file, options.executor.native.threads, options.executor.native.profile ? ISO_PROFILE : 0));
  const auto start = Clock::now();
  ISOMER_TRY(std::vector<Tensor> outputs, run.run(inputs));
  out.first_run_seconds = seconds_since(start);
  ISOMER_CHECK_OK(time_runs(options.seconds, out, [&] { return run.run_into(inputs, outputs); }));
  const iso_info& info = file->info();
  out.facts.pieces = 1;
  out.facts.native.steps = info.steps;
  out.facts.native.arena_bytes = info.arena_bytes;
  out.facts.native.weight_bytes = info.weight_bytes;
  out.facts.native.scratch_bytes = info.scratch_bytes;
  out.facts.native.target = info.target;
  double flops = 0;
  for (const iso_profile& p : run.profile()) {
    out.steps.push_back({p.name, p.origin, p.tasks, p.flops, p.bytes, p.runs, p.seconds, p.fastest});
    flops += p.flops;
  }
  out.flops = flops > 0 ? std::optional(flops) : std::nullopt;
  if (model) out.flops = arithmetic(*model, inputs);
  out.peak_flops = measure_peak_flops(options.executor.native.threads);
  if (model && options.check) ISOMER_CHECK_OK(measure_errors(*model, inputs, outputs, options, out));
  return out;
}

}  // namespace isomer::driver
