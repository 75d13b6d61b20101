#include <llvm/ADT/StringMap.h>
#include <llvm/TargetParser/Host.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include "codegen/codegen.h"

namespace isomer::codegen {
namespace {

int64_t cache_bytes(int name, int64_t otherwise) {
  const long n = sysconf(name);
  return n > 0 ? n : otherwise;
}

// What sys::getHostCPUFeatures leaves out on aarch64, by the kernel's names.
[[maybe_unused]] void add_arm_features(std::vector<std::string>& features) {
  std::ifstream file("/proc/cpuinfo");
  std::string line;
  while (std::getline(file, line))
    if (line.starts_with("Features")) break;
  std::istringstream words(line);
  const std::pair<const char*, const char*> known[] = {{"asimd", "neon"}, {"asimddp", "dotprod"},  {"i8mm", "i8mm"},
                                                       {"bf16", "bf16"},  {"asimdhp", "fullfp16"}, {"atomics", "lse"},
                                                       {"fp", "fp-armv8"}};
  for (std::string word; words >> word;)
    for (const auto& [kernel, ours] : known)
      if (word == kernel) features.emplace_back(ours);
}

// Two-dimensional registers are a process's only after it has asked for them.
[[maybe_unused]] bool may_use_matrix_tiles() {
#if defined(__x86_64__)
  constexpr long kRequestPermission = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
#else
  return false;
#endif
}

}  // namespace

Expected<loop::Target> host_target() {
  loop::Target t;
  t.name = "host";
  t.cpu = llvm::sys::getHostCPUName().str();
  for (const auto& feature : llvm::sys::getHostCPUFeatures())
    if (feature.getValue()) t.features.push_back(feature.getKey().str());
#if defined(__aarch64__)
  t.arch = loop::Arch::AArch64;
  add_arm_features(t.features);
  t.vector_bytes = 16;
  t.vector_registers = 32;
#elif defined(__x86_64__)
  t.arch = loop::Arch::X86_64;
#else
  return Diagnostic("E-target", "code can be generated on x86-64 and aarch64 only; name a target with --target");
#endif
  std::sort(t.features.begin(), t.features.end());
  t.features.erase(std::unique(t.features.begin(), t.features.end()), t.features.end());
  if (t.arch == loop::Arch::X86_64) {
    if (t.has("amx-tile") && !may_use_matrix_tiles())
      std::erase_if(t.features, [](const std::string& f) { return f.starts_with("amx-"); });
    t.vector_bytes = t.has("avx512f") ? 64 : t.has("avx2") ? 32 : 16;
    t.vector_registers = t.has("avx512f") ? 32 : 16;
  }
  t.l1_bytes = cache_bytes(_SC_LEVEL1_DCACHE_SIZE, t.l1_bytes);
  t.l2_bytes = cache_bytes(_SC_LEVEL2_CACHE_SIZE, t.l2_bytes);
  return t;
}

}  // namespace isomer::codegen
