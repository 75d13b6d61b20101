#include "cost/roofline.h"

#include <gtest/gtest.h>

#include "loop/intrinsics.h"

namespace isomer::cost {
namespace {

// The core that aarch64 stands for: four units of four floats at 2.6 GHz, 64 KB and 1 MB of cache.
TEST(Roofline, WhatTheTargetAarch64StandsFor) {
  for (const char* name : {"aarch64", "aarch64-dotprod"}) {
    const loop::Target t = *loop::parse_target(name);
    EXPECT_EQ(t.l1_bytes, 64 << 10);
    EXPECT_EQ(t.l2_bytes, 1 << 20);
    EXPECT_EQ(t.vector_registers, 32);
    const Machine m = nominal_machine(t);
    EXPECT_NEAR(m.flops, 83.2e9, 4e9);
    EXPECT_NEAR(m.l2_bandwidth, 67e9, 10e9);
    EXPECT_NEAR(m.far_bandwidth, 29e9, 5e9);
    EXPECT_EQ(loop::split_product_for(t), nullptr);
  }
}

TEST(Roofline, TwoUnitsOfWideVectors) {
  EXPECT_NEAR(nominal_machine(*loop::parse_target("x86-64-v4")).flops, 160e9, 1e9);
}

// Weights are in no near cache when a kernel begins: one kernel with those of eight is no dearer than the eight.
TEST(Roofline, WeightsOfManyProductsCostNoMoreInOneKernel) {
  const loop::Target t = *loop::parse_target("x86-64-v4");
  const Machine m = nominal_machine(t);
  const auto seconds = [&](double megabytes, bool far) {
    Load load;
    load.work.bytes = load.weight_bytes = megabytes * (1 << 20);
    load.far_weights = far;
    load.tasks = 8;
    load.threads = 2;
    return estimated_seconds(load, m, t);
  };
  EXPECT_LT(seconds(8, false), 8 * seconds(1, false));
  EXPECT_GT(seconds(8, false), 7 * seconds(1, false));
  EXPECT_GT(seconds(1, true), 2 * seconds(1, false));
}

// Operands are packed, waited for and multiplied one after the other.
TEST(Roofline, PartsOfAKernelAddUp) {
  const loop::Target t = *loop::parse_target("x86-64-v4");
  const Machine m = nominal_machine(t);
  Load load;
  load.work.tile_flops = 1e8;
  load.work.instructions = 1e6;
  load.work.bytes = 1e5;
  const Mix mix = mix_of(load, m, t);
  EXPECT_GT(mix.vectors, 1e8 / m.flops + 1e6 / m.instructions);
  EXPECT_EQ(mix.tiles, 0);
  EXPECT_DOUBLE_EQ(mix.memory, 1e5 / m.l2_bandwidth);
  EXPECT_DOUBLE_EQ(estimated_seconds(load, m, t), mix.seconds() + m.step_seconds);
  load.work.split_flops = 1e8;
  EXPECT_GT(mix_of(load, m, t).tiles, 0);
  EXPECT_EQ(mix_of(load, m, t).vectors, mix.vectors);
}

}  // namespace
}  // namespace isomer::cost
