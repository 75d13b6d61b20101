// Target: the machine that loops are scheduled for and code is generated for. Plain data; `host` of a code generator asks
// the machine, names like "x86-64-v4" stand for classes of machines. Features decide what code may use, never the CPU's name.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/expected.h"

namespace isomer::loop {

enum class Arch : uint8_t { X86_64, AArch64 };

struct Target {
  Arch arch = Arch::X86_64;
  std::string name;                   // as the user says it: "host", "x86-64-v3", "x86-64-v4", "aarch64"
  std::string cpu;                    // for instruction scheduling only
  std::vector<std::string> features;  // LLVM's names of what the machine has, sorted: "avx2", "fma", "avx512f", "neon"
  int vector_bytes = 16;
  int vector_registers = 16;
  int64_t l1_bytes = 32 << 10, l2_bytes = 1 << 20;

  bool has(std::string_view feature) const;
  bool operator==(const Target&) const = default;
};

// "x86-64-v3" (AVX2, FMA), "x86-64-v4" (AVX-512), "x86-64-v4-vnni", "x86-64-v4-amx" (tile registers),
// "aarch64" (NEON), "aarch64-dotprod".
Expected<Target> parse_target(std::string_view name);
std::vector<std::string_view> target_names();

}  // namespace isomer::loop
