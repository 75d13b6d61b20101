#include "cost/machine.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <fstream>
#include <vector>

#include "base/clock_seconds.h"
#include "base/hash.h"
#include "base/peak.h"
#include "codegen/codegen.h"
#include "compile/host_program.h"
#include "cost/core_rate.h"
#include "runtime/abi.h"
#include "runtime/memory.h"

namespace isomer::cost {
namespace {

constexpr int kMoments = 600;  // what a neighbour does comes in phases of up to a second

using Clock = std::chrono::steady_clock;

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

// Bytes per second of reading memory again and again, the best of a few tries.
double bandwidth(uint64_t bytes) {
  void* memory = iso_map(bytes);
  if (!memory) return 0;
  std::memset(memory, 1, bytes);
  typedef uint64_t Words __attribute__((vector_size(64)));
  const auto* at = static_cast<const Words*>(memory);
  const uint64_t count = bytes / sizeof(Words);
  const uint64_t rounds = std::max<uint64_t>(1, (uint64_t{16} << 20) / bytes);
  double best = 1e30;
  uint64_t sink = 0;
  for (int tries = 0; tries < 5; ++tries) {
    const auto start = Clock::now();
    for (uint64_t r = 0; r < rounds; ++r) {
      Words sums[4] = {};
      for (uint64_t i = 0; i + 4 <= count; i += 4)
        for (uint64_t k = 0; k < 4; ++k) sums[k] += at[i + k];
      for (const Words& s : sums) sink += s[0];
    }
    best = std::min(best, seconds_since(start));
  }
  iso_unmap(memory, bytes);
  return sink == 1 ? 0 : static_cast<double>(bytes * rounds) / best;  // the sums must not be optimised away
}

int32_t nothing(void* const*, int64_t, int64_t, void*) { return 0; }

// Seconds of a step that does nothing, with this many tasks.
double empty_step(const loop::Target& target, int64_t tasks, int threads) {
  constexpr size_t kSteps = 256;
  compile::Plan plan;
  plan.model = "measurement";
  plan.target = target;
  plan.steps.resize(kSteps);
  for (compile::Step& s : plan.steps) {
    s.function = "nothing";
    s.tasks = tasks;
  }
  const auto program = compile::HostProgram::make(std::move(plan), [](std::string_view) { return &nothing; });
  if (!program.ok()) return 0;
  iso_error error;
  iso_model* model = iso_open_program((*program)->get(), &error);
  iso_context* context = model ? iso_new_context(model, threads, 0, &error) : nullptr;
  double best = 1e30;
  for (int i = 0; context && i < 20; ++i) {
    const auto start = Clock::now();
    iso_run(context, nullptr, 0, nullptr, 0, &error);
    best = std::min(best, seconds_since(start));
  }
  iso_free_context(context, nullptr);
  if (model) iso_close(model, nullptr);
  return best < 1e30 ? best / static_cast<double>(kSteps) : 0;
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
  m.l2_bandwidth = std::max(m.l2_bandwidth / 8, bandwidth(static_cast<uint64_t>(target.l2_bytes) / 2));
  m.far_bandwidth = std::max(m.far_bandwidth / 8, bandwidth(uint64_t{64} << 20));
  m.step_seconds = empty_step(target, 1, 1);
  if (threads > 1) m.region_seconds = std::max(0.0, empty_step(target, threads, threads) - m.step_seconds);
  return m;
}

}  // namespace isomer::cost
