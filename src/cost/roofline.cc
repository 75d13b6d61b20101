#include "cost/roofline.h"

#include <algorithm>
#include <cmath>

namespace isomer::cost {
namespace {

constexpr double kTileEfficiency = 0.85;  // of the peak, what register tiles reach with their tails and packing
// Three products for one of floats, and operands come out of caches between them.
constexpr double kSplitEfficiency = 0.55 / 3;
constexpr double kSplitPeak = 16;  // times that of vectors, where it was not measured
constexpr double kHertz = 2.5e9;

}  // namespace

Machine nominal_machine(const loop::Target& target) {
  // Cores of ARM servers have twice the units and half the width.
  const bool arm = target.arch == loop::Arch::AArch64;
  const double lanes = target.vector_bytes / 4.0, units = arm ? 4 : 2;
  Machine m;
  m.flops = 2 * units * lanes * kHertz;  // a product and a sum each
  m.instructions = 1.1 * units * kHertz;
  m.l2_bandwidth = 24 * kHertz;
  m.pool_bandwidth = arm ? 40e9 : 24e9;
  m.far_bandwidth = arm ? 25e9 : 10e9;
  m.step_seconds = 60e-9;
  m.region_seconds = 1e-6;
  return m;
}

Mix mix_of(const Load& load, const Machine& machine, const loop::Target& target) {
  const Work& w = load.work;
  const double tile_rate = machine.tile_rate > 0 ? machine.tile_rate : kSplitPeak * machine.flops;
  const double values = std::max(0.0, w.bytes - load.weight_bytes);
  const double fits = std::min(1.0, static_cast<double>(target.l2_bytes) / std::max(w.bytes, 1.0));
  Mix m;
  m.vectors = w.tile_flops / (machine.flops * kTileEfficiency) + w.instructions / machine.instructions;
  m.tiles = w.split_flops / (tile_rate * kSplitEfficiency);
  m.memory = values * (fits / machine.l2_bandwidth + (1 - fits) / machine.pool_bandwidth) +
             load.weight_bytes / (load.far_weights ? machine.far_bandwidth : machine.pool_bandwidth);
  return m;
}

double estimated_seconds(const Load& load, const Machine& machine, const loop::Target& target) {
  const Mix alone = mix_of(load, machine, target);
  double seconds = alone.seconds();
  const double threads = std::max(1, load.threads);
  if (threads > 1 && load.tasks > 1 && seconds > 4 * machine.region_seconds) {
    const double rounds = std::ceil(static_cast<double>(load.tasks) / threads);
    const double share = rounds / static_cast<double>(load.tasks);  // of the work, that the busiest thread has
    const double lanes = 1 + (threads - 1) * machine.shared_bandwidth;
    seconds =
        (alone.vectors + alone.tiles) * share + alone.memory / std::min(lanes, 1 / share) + machine.region_seconds;
  }
  return seconds + machine.step_seconds;
}

}  // namespace isomer::cost
