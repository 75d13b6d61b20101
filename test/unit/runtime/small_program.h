// A program of three hand-written kernels: arena = x * w; y = sums of windows of the arena, through scratch; z = x[index].
// Every kernel works on 64 elements a task.
#pragma once

#include <array>
#include <cstring>
#include <string>
#include <vector>

#include "runtime/abi.h"

namespace isomer::runtime_test {

inline constexpr int64_t kBlock = 64, kTasks = 37, kSize = kBlock * kTasks;

inline int32_t scale(void* const* a, int64_t begin, int64_t end, void*) {
  const auto *x = static_cast<const float*>(a[0]), *w = static_cast<const float*>(a[1]);
  auto* out = static_cast<float*>(a[2]);
  for (int64_t i = begin * kBlock; i < end * kBlock; ++i) out[i] = x[i] * w[i];
  return 0;
}

inline int32_t window(void* const* a, int64_t begin, int64_t end, void* scratch) {
  const auto* x = static_cast<const float*>(a[0]);
  auto* y = static_cast<float*>(a[1]);
  auto* local = static_cast<float*>(scratch);
  for (int64_t task = begin; task < end; ++task) {
    for (int64_t i = 0; i < kBlock; ++i) {
      const int64_t at = task * kBlock + i;
      local[i] = x[at] + (at + 1 < kSize ? x[at + 1] : 0);
    }
    std::memcpy(y + task * kBlock, local, kBlock * sizeof(float));
  }
  return 0;
}

inline int32_t gather(void* const* a, int64_t begin, int64_t end, void*) {
  const auto* x = static_cast<const float*>(a[0]);
  const auto* index = static_cast<const int64_t*>(a[1]);
  auto* z = static_cast<float*>(a[2]);
  for (int64_t i = begin; i < end; ++i) {
    if (index[i] < 0 || index[i] >= kSize) return 1;
    z[i] = x[index[i]];
  }
  return 0;
}

struct SmallProgram {
  std::vector<float> weights = std::vector<float>(kSize + 16);
  std::array<int64_t, 2> dims{kTasks, kBlock};
  std::array<int64_t, 1> index_dims{8};
  std::array<iso_tensor, 2> inputs{
      {{"x", ISO_F32, 2, dims.data(), kSize * 4, 64, 64}, {"index", ISO_I64, 1, index_dims.data(), 64, 8, 0}}};
  std::array<iso_tensor, 2> outputs{
      {{"y", ISO_F32, 2, dims.data(), kSize * 4, 64, 64}, {"z", ISO_F32, 1, index_dims.data(), 32, 4, 0}}};
  std::array<iso_place, 3> scale_places{{{ISO_IN_INPUT, 0, 0}, {ISO_IN_WEIGHTS, 0, 0}, {ISO_IN_ARENA, 0, 64}}};
  std::array<iso_place, 2> window_places{{{ISO_IN_ARENA, 0, 64}, {ISO_IN_OUTPUT, 0, 0}}};
  std::array<iso_place, 3> gather_places{{{ISO_IN_INPUT, 0, 0}, {ISO_IN_INPUT, 1, 0}, {ISO_IN_OUTPUT, 1, 0}}};
  std::array<iso_range, 1> freed{{{64, kSize * 4}}};
  std::array<iso_step, 3> steps{};
  iso_program program{};

  SmallProgram() {
    for (size_t i = 0; i < weights.size(); ++i) weights[i] = 1.0f + static_cast<float>(i % 7) / 8;
    steps[0] = {scale, "scale", "Mul_0", scale_places.data(), nullptr, 3, 0, kTasks, 0, 0, 0, 0, 0};
    steps[1] = {window, "window", "Add_1,Slice_2", window_places.data(), freed.data(), 2, 1, kTasks, kBlock * 4, 0, 0,
                0,      0};
    steps[2] = {gather, "gather", "Gather_3", gather_places.data(), nullptr, 3, 0, 8, 0, 0, 0, 0, 0};
    program.abi_version = ISO_ABI_VERSION;
    program.model = "small";
    program.target = "any";
    program.features = "";
    program.inputs = inputs.data();
    program.input_count = 2;
    program.outputs = outputs.data();
    program.output_count = 2;
    program.steps = steps.data();
    program.step_count = 3;
    program.weights = weights.data();
    program.weight_bytes = kSize * 4;
    program.arena_bytes = 64 + kSize * 4;
    program.scratch_bytes = kBlock * 4;
  }
  SmallProgram(const SmallProgram&) = delete;
  SmallProgram& operator=(const SmallProgram&) = delete;

  std::vector<float> expected(const float* x) const {
    std::vector<float> product(kSize + 1), y(kSize);
    for (size_t i = 0; i < kSize; ++i) product[i] = x[i] * weights[i];
    for (size_t i = 0; i < kSize; ++i) y[i] = product[i] + product[i + 1];
    return y;
  }
};

// The caller's side of one run.
struct Buffers {
  alignas(64) std::array<float, kSize + 16> x{}, y{};
  std::array<int64_t, 8> index{0, 1, 2, 3, 5, 8, 13, kSize - 1};
  std::array<float, 8> z{};
  std::array<iso_buffer, 2> in{
      {{x.data(), kSize * 4, nullptr, nullptr, 0, 0}, {index.data(), 64, nullptr, nullptr, 0, 0}}};
  std::array<iso_buffer, 2> out{
      {{y.data(), kSize * 4, nullptr, nullptr, 0, 0}, {z.data(), 32, nullptr, nullptr, 0, 0}}};

  explicit Buffers(int seed = 1) {
    for (size_t i = 0; i < x.size(); ++i)
      x[i] = static_cast<float>((i * 37 + static_cast<size_t>(seed) * 11) % 101) / 16;
  }
  Buffers(const Buffers&) = delete;
  Buffers& operator=(const Buffers&) = delete;

  int run(iso_context* context, iso_error* error) { return iso_run(context, in.data(), 2, out.data(), 2, error); }
};

}  // namespace isomer::runtime_test
