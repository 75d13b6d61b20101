// Sketch: a small graph over a family's templates and inputs, in a few bytes. A reference is an input (below
// kFirstResult) or result k of a step (kFirstResult + 2 * step + k). Steps are in topological order.
#pragma once

#include <array>
#include <cstdint>

#include "propose/palette.h"

namespace isomer::propose {

inline constexpr size_t kMaxSteps = 5;
inline constexpr size_t kMaxLive = 4;
inline constexpr uint8_t kFirstResult = 32;

using Ref = uint8_t;
constexpr bool is_result(Ref r) { return r >= kFirstResult; }
constexpr size_t step_of(Ref r) { return static_cast<size_t>(r - kFirstResult) / 2; }
constexpr size_t result_of(Ref r) { return static_cast<size_t>(r - kFirstResult) % 2; }
constexpr Ref ref(size_t step, size_t result) { return static_cast<Ref>(kFirstResult + 2 * step + result); }

struct Step {
  uint16_t op = 0;  // a template of the family
  std::array<Ref, kMaxOperands> args = {};
  bool operator==(const Step&) const = default;
  auto operator<=>(const Step&) const = default;
};

struct Sketch {
  uint8_t count = 0;  // steps
  uint8_t outs = 0;
  std::array<Step, kMaxSteps> steps = {};
  std::array<Ref, kMaxLive> out = {};  // values that are still needed: what the graph computes
  bool operator==(const Sketch&) const = default;
};

// Inputs that the graph uses, by bit.
uint32_t inputs_of(const Sketch& s, const Family& family);

}  // namespace isomer::propose
