#if defined(__aarch64__)
#include <asm/hwcap.h>
#endif
#include <llvm/ADT/StringMap.h>
#include <llvm/TargetParser/Host.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

#include "base/caches.h"
#include "codegen/codegen.h"

namespace isomer::codegen {
namespace {

int64_t cache_bytes(int name, int64_t otherwise) {
  const long n = sysconf(name);
  return n > 0 ? n : otherwise;
}

// The C library knows the caches of x86-64 only, and the system those that its firmware tells of; a Target's own sizes are
// left where neither does.
void set_caches(loop::Target& t) {
  const Caches told = read_caches();
  t.l1_bytes = cache_bytes(_SC_LEVEL1_DCACHE_SIZE, told.l1_bytes > 0 ? told.l1_bytes : t.l1_bytes);
  t.l2_bytes = cache_bytes(_SC_LEVEL2_CACHE_SIZE, told.l2_bytes > 0 ? told.l2_bytes : t.l2_bytes);
}

// What the kernel lets a process use, by the bits that it passes to every process: unlike a name or a file, they are also
// right in containers and under emulation. Scalable vectors are left out: code is made for vectors of 16 bytes.
#if defined(__aarch64__)
void add_arm_features(std::vector<std::string>& features) {
  struct Bit {
    unsigned long word, bit;
    const char* name;
  };
  const unsigned long one = getauxval(AT_HWCAP), two = getauxval(AT_HWCAP2);
  const Bit known[] = {{one, HWCAP_FP, "fp-armv8"},     {one, HWCAP_ASIMD, "neon"},
                       {one, HWCAP_ATOMICS, "lse"},     {one, HWCAP_ASIMDHP, "fullfp16"},
                       {one, HWCAP_ASIMDDP, "dotprod"}, {one, HWCAP_ASIMDFHM, "fp16fml"},
                       {two, HWCAP2_I8MM, "i8mm"},      {two, HWCAP2_BF16, "bf16"}};
  for (const Bit& b : known)
    if (b.word & b.bit) features.emplace_back(b.name);
}
#endif

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
#if defined(__aarch64__)
  ISOMER_TRY(t, loop::parse_target("aarch64"));
  t.features.clear();
  add_arm_features(t.features);
#elif defined(__x86_64__)
  t.arch = loop::Arch::X86_64;
  for (const auto& feature : llvm::sys::getHostCPUFeatures())
    if (feature.getValue()) t.features.push_back(feature.getKey().str());
#else
  return Diagnostic("E-target", "code can be generated on x86-64 and aarch64 only; name a target with --target");
#endif
  t.name = "host";
  if (const std::string cpu = llvm::sys::getHostCPUName().str(); t.cpu.empty() || cpu != "generic") t.cpu = cpu;
  std::sort(t.features.begin(), t.features.end());
  t.features.erase(std::unique(t.features.begin(), t.features.end()), t.features.end());
  if (t.arch == loop::Arch::X86_64) {
    if (t.has("amx-tile") && !may_use_matrix_tiles())
      std::erase_if(t.features, [](const std::string& f) { return f.starts_with("amx-"); });
    t.vector_bytes = t.has("avx512f") ? 64 : t.has("avx2") ? 32 : 16;
    t.vector_registers = t.has("avx512f") ? 32 : 16;
  }
  set_caches(t);
  return t;
}

}  // namespace isomer::codegen
