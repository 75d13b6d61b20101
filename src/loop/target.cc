#include "loop/target.h"

#include <algorithm>

namespace isomer::loop {
namespace {

using Features = std::vector<std::string>;

constexpr std::string_view kNames[] = {"x86-64-v3",     "x86-64-v4", "x86-64-v4-vnni",
                                       "x86-64-v4-amx", "aarch64",   "aarch64-dotprod"};

constexpr const char* kArmTuning = "neoverse-v1";  // a server's core; what code may use does not follow from it

Features with(Features base, const Features& more) {
  base.insert(base.end(), more.begin(), more.end());
  std::sort(base.begin(), base.end());
  return base;
}

Features v3() {
  return {"avx", "avx2",  "bmi",    "bmi2", "cmov", "crc32", "cx16", "cx8",    "f16c",   "fma",   "fxsr", "lzcnt",
          "mmx", "movbe", "popcnt", "sahf", "sse",  "sse2",  "sse3", "sse4.1", "sse4.2", "ssse3", "x87",  "xsave"};
}

Features v4() { return with(v3(), {"avx512bw", "avx512cd", "avx512dq", "avx512f", "avx512vl"}); }

Target x86(std::string_view name, std::string cpu, Features features, int vector_bytes, int registers) {
  Target t;
  t.arch = Arch::X86_64;
  t.name = name;
  t.cpu = std::move(cpu);
  t.features = std::move(features);
  t.vector_bytes = vector_bytes;
  t.vector_registers = registers;
  return t;
}

Target arm(std::string_view name, Features features) {
  Target t;
  t.arch = Arch::AArch64;
  t.name = name;
  t.cpu = kArmTuning;
  t.features = std::move(features);
  t.vector_bytes = 16;
  t.vector_registers = 32;
  t.l1_bytes = 64 << 10;
  return t;
}

}  // namespace

bool Target::has(std::string_view feature) const {
  return std::binary_search(features.begin(), features.end(), feature, std::less<>());
}

std::vector<std::string_view> target_names() { return {std::begin(kNames), std::end(kNames)}; }

Expected<Target> parse_target(std::string_view name) {
  if (name == "x86-64-v3") return x86(name, "x86-64-v3", with(v3(), {}), 32, 16);
  if (name == "x86-64-v4") return x86(name, "x86-64-v4", v4(), 64, 32);
  if (name == "x86-64-v4-vnni") return x86(name, "x86-64-v4", with(v4(), {"avx512vnni"}), 64, 32);
  if (name == "x86-64-v4-amx")
    return x86(name, "sapphirerapids", with(v4(), {"amx-bf16", "amx-int8", "amx-tile", "avx512bf16", "avx512vnni"}), 64,
               32);
  if (name == "aarch64") return arm(name, {"fp-armv8", "neon"});
  if (name == "aarch64-dotprod") return arm(name, {"dotprod", "fp-armv8", "neon"});
  std::string known;
  for (const std::string_view n : kNames) known += (known.empty() ? "" : ", ") + std::string(n);
  return Diagnostic("E-target", "there is no target " + isomer::quoted(name) + "; known are " + known);
}

}  // namespace isomer::loop
