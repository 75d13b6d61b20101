#include "cost/machine.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <memory>
#include <vector>

#include "base/clock_seconds.h"
#include "base/hash.h"
#include "base/peak.h"
#include "codegen/codegen.h"
#include "compile/host_program.h"
#include "cost/core_rate.h"
#include "runtime/abi.h"

namespace isomer::cost {
namespace {

constexpr uint64_t kPool = 4;  // second caches: too much for one of them, and little for the last cache
constexpr int kMoments = 600;  // what a neighbour does comes in phases of up to a second

// As the system calls it; "" where it does not say.
std::string cpu_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("model name") && !line.starts_with("CPU part")) continue;
    const size_t colon = line.find(':');
    return colon == std::string::npos ? "" : line.substr(std::min(line.size(), colon + 2));
  }
  return "";
}

int32_t nothing(void* const*, int64_t, int64_t, void*) { return 0; }

// Some microseconds for each task, so that a thread that comes late finds one that nobody took.
int32_t something(void* const*, int64_t begin, int64_t end, void*) {
  constexpr uint64_t kSums = 8192;
  uint64_t sum = 0;
  for (int64_t task = begin; task < end; ++task)
    for (uint64_t i = 0; i < kSums; ++i) asm volatile("" : "+r"(sum += i));
  return 0;
}

// A plan of such steps that was opened.
class Steps {
 public:
  Steps(const loop::Target& target, iso_kernel kernel, const std::vector<int64_t>& tasks, int threads, bool profile) {
    compile::Plan plan;
    plan.model = "measurement";
    plan.target = target;
    plan.steps.resize(tasks.size());
    for (size_t i = 0; i < tasks.size(); ++i) {
      plan.steps[i].function = "kernel";
      plan.steps[i].tasks = tasks[i];
    }
    auto program = compile::HostProgram::make(std::move(plan), [&](std::string_view) { return kernel; });
    if (!program.ok()) return;
    program_ = *std::move(program);
    totals_.assign(tasks.size(), 0);
    model_ = iso_open_program(program_->get(), &error_);
    if (model_) context_ = iso_new_context(model_, threads, profile ? ISO_PROFILE : 0, &error_);
  }
  ~Steps() {
    iso_free_context(context_, nullptr);
    if (model_) iso_close(model_, nullptr);
  }
  Steps(const Steps&) = delete;
  Steps& operator=(const Steps&) = delete;

  bool run() { return context_ && iso_run(context_, nullptr, 0, nullptr, 0, &error_) == ISO_OK; }
  // Seconds of each step of one run, with a profile; none where it does not run.
  std::vector<double> times() {
    if (!run()) return {};
    std::vector<double> out;
    for (size_t i = 0; i < totals_.size(); ++i) {
      iso_profile p = {};
      if (iso_step_profile(context_, static_cast<uint32_t>(i), &p, nullptr) != ISO_OK) return {};
      out.push_back(p.seconds - totals_[i]);
      totals_[i] = p.seconds;
    }
    return out;
  }

 private:
  std::unique_ptr<compile::HostProgram> program_;
  iso_error error_ = {};
  iso_model* model_ = nullptr;
  iso_context* context_ = nullptr;
  std::vector<double> totals_;
};

// What a step of as many tasks as threads takes longer than one of a single task just before it: how threads are called and
// waited for. A low one of many: a core that others use too comes late as often as not.
double region_seconds(const loop::Target& target, int threads) {
  constexpr size_t kPairs = 64;
  constexpr int kRuns = 40;
  std::vector<int64_t> tasks;
  for (size_t i = 0; i < kPairs; ++i) tasks.insert(tasks.end(), {1, threads});
  Steps steps(target, &something, tasks, threads, true);
  std::vector<double> more;
  for (int i = 0; i < kRuns; ++i) {
    const std::vector<double> seconds = steps.times();
    for (size_t k = 1; k < seconds.size(); k += 2) more.push_back(seconds[k] - seconds[k - 1]);
  }
  if (more.empty()) return 0;
  const auto low = more.begin() + static_cast<ptrdiff_t>(more.size() / 4);
  std::nth_element(more.begin(), low, more.end());
  return std::max(0.0, *low);
}

double step_seconds(const loop::Target& target) {
  constexpr size_t kSteps = 256;
  Steps steps(target, &nothing, std::vector<int64_t>(kSteps, 1), 1, false);
  double best = 1e30;
  for (int i = 0; i < 20; ++i) {
    const auto start = std::chrono::steady_clock::now();
    if (!steps.run()) return 0;
    best = std::min(best, seconds_since(start));
  }
  return best / static_cast<double>(kSteps);
}

}  // namespace

std::string setting_text(const loop::Target& target, int threads) {
  const std::string features = fmt::format("{}", fmt::join(target.features, ","));
  return fmt::format("{} ({}, {} features {}), caches {} and {} bytes, {}, {} threads", cpu_name(), target.cpu,
                     target.features.size(), hash_bytes(features.data(), features.size()).hex(), target.l1_bytes,
                     target.l2_bytes, codegen::version(), threads);
}

Machine measure_machine(const loop::Target& target, int threads) {
  Machine m = nominal_machine(target);
  const double nominal = m.flops;
  m.flops = measure_peak_flops(1);
  m.instructions *= m.flops / nominal;
  for (int tries = 0; tries < 1000; ++tries) m.tile_rate = std::max(m.tile_rate, core_rate(Units::Tiles, target));
  m.usual = usual_rates(survey(target, threads, kMoments), fastest_units(target));
  const auto l2 = static_cast<uint64_t>(target.l2_bytes);
  m.l2_bandwidth = std::max(m.l2_bandwidth / 8, measure_bandwidth(l2 / 2));
  m.pool_bandwidth = std::max(m.pool_bandwidth / 8, measure_bandwidth(kPool * l2));
  m.far_bandwidth = std::max(m.far_bandwidth / 8, measure_bandwidth(uint64_t{64} << 20));
  m.step_seconds = step_seconds(target);
  if (threads > 1) m.region_seconds = std::max(m.region_seconds, region_seconds(target, threads));
  return m;
}

}  // namespace isomer::cost
