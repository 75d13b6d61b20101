#include "runtime/cpu.h"

#include "runtime/libc.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

/* Where CPUID tells a feature: leaf, subleaf, register (0 eax .. 3 edx), bit. `state`: the bits of XCR0 by which the system
 * says that it saves the registers. */
typedef struct {
  const char* name;
  uint32_t leaf, subleaf, reg, bit, state;
} x86_feature;

#define X87 0x1u
#define AVX 0x6u
#define AVX512 0xe6u
#define AMX 0x60000u

static const x86_feature x86_features[] = {
    {"x87", 1, 0, 3, 0, 0},
    {"cx8", 1, 0, 3, 8, 0},
    {"cmov", 1, 0, 3, 15, 0},
    {"mmx", 1, 0, 3, 23, 0},
    {"fxsr", 1, 0, 3, 24, 0},
    {"sse", 1, 0, 3, 25, 0},
    {"sse2", 1, 0, 3, 26, 0},
    {"sse3", 1, 0, 2, 0, 0},
    {"pclmul", 1, 0, 2, 1, 0},
    {"ssse3", 1, 0, 2, 9, 0},
    {"fma", 1, 0, 2, 12, AVX},
    {"cx16", 1, 0, 2, 13, 0},
    {"sse4.1", 1, 0, 2, 19, 0},
    {"sse4.2", 1, 0, 2, 20, 0},
    {"crc32", 1, 0, 2, 20, 0},
    {"movbe", 1, 0, 2, 22, 0},
    {"popcnt", 1, 0, 2, 23, 0},
    {"aes", 1, 0, 2, 25, 0},
    {"xsave", 1, 0, 2, 27, 0},
    {"avx", 1, 0, 2, 28, AVX},
    {"f16c", 1, 0, 2, 29, AVX},
    {"bmi", 7, 0, 1, 3, 0},
    {"avx2", 7, 0, 1, 5, AVX},
    {"bmi2", 7, 0, 1, 8, 0},
    {"avx512f", 7, 0, 1, 16, AVX512},
    {"avx512dq", 7, 0, 1, 17, AVX512},
    {"adx", 7, 0, 1, 19, 0},
    {"avx512ifma", 7, 0, 1, 21, AVX512},
    {"avx512cd", 7, 0, 1, 28, AVX512},
    {"sha", 7, 0, 1, 29, 0},
    {"avx512bw", 7, 0, 1, 30, AVX512},
    {"avx512vl", 7, 0, 1, 31, AVX512},
    {"avx512vbmi", 7, 0, 2, 1, AVX512},
    {"avx512vbmi2", 7, 0, 2, 6, AVX512},
    {"gfni", 7, 0, 2, 8, 0},
    {"vaes", 7, 0, 2, 9, AVX},
    {"vpclmulqdq", 7, 0, 2, 10, AVX},
    {"avx512vnni", 7, 0, 2, 11, AVX512},
    {"avx512bitalg", 7, 0, 2, 12, AVX512},
    {"avx512vpopcntdq", 7, 0, 2, 14, AVX512},
    {"avx512vp2intersect", 7, 0, 3, 8, AVX512},
    {"amx-bf16", 7, 0, 3, 22, AMX},
    {"avx512fp16", 7, 0, 3, 23, AVX512},
    {"amx-tile", 7, 0, 3, 24, AMX},
    {"amx-int8", 7, 0, 3, 25, AMX},
    {"avxvnni", 7, 1, 0, 4, AVX},
    {"avx512bf16", 7, 1, 0, 5, AVX512},
    {"amx-fp16", 7, 1, 0, 21, AMX},
    {"avxifma", 7, 1, 0, 23, AVX},
    {"avxvnniint8", 7, 1, 3, 4, AVX},
    {"avxneconvert", 7, 1, 3, 5, AVX},
    {"avxvnniint16", 7, 1, 3, 10, AVX},
    {"xsaveopt", 13, 1, 0, 0, 0},
    {"sahf", 0x80000001u, 0, 2, 0, 0},
    {"lzcnt", 0x80000001u, 0, 2, 5, 0},
    {"sse4a", 0x80000001u, 0, 2, 6, 0},
    {"prfchw", 0x80000001u, 0, 2, 8, 0},
    {"xop", 0x80000001u, 0, 2, 11, AVX},
    {"fma4", 0x80000001u, 0, 2, 16, AVX},
    {"tbm", 0x80000001u, 0, 2, 21, 0},
    {"64bit", 0x80000001u, 0, 3, 29, 0},
};

/* Where the auxiliary vector tells a feature: word 16 (AT_HWCAP) or 26 (AT_HWCAP2), and a bit. */
typedef struct {
  const char* name;
  uint32_t word, bit;
} arm_feature;

static const arm_feature arm_features[] = {
    {"fp-armv8", 16, 0}, {"neon", 16, 1},      {"aes", 16, 3},     {"sha2", 16, 6},     {"crc", 16, 7},
    {"lse", 16, 8},      {"fullfp16", 16, 10}, {"rdm", 16, 12},    {"jsconv", 16, 13},  {"complxnum", 16, 14},
    {"rcpc", 16, 15},    {"sha3", 16, 17},     {"sm4", 16, 19},    {"dotprod", 16, 20}, {"sve", 16, 22},
    {"fp16fml", 16, 23}, {"sve2", 26, 1},      {"fptoint", 26, 8}, {"f32mm", 26, 10},   {"f64mm", 26, 11},
    {"i8mm", 26, 13},    {"bf16", 26, 14},
};

#define COUNT(table) (sizeof(table) / sizeof(table)[0])

static int same(const char* name, const char* text, size_t length) {
  return strncmp(name, text, length) == 0 && name[length] == 0;
}

static const x86_feature* find_x86(const char* text, size_t length) {
  for (size_t i = 0; i < COUNT(x86_features); ++i) {
    if (same(x86_features[i].name, text, length)) return &x86_features[i];
  }
  return NULL;
}

static const arm_feature* find_arm(const char* text, size_t length) {
  for (size_t i = 0; i < COUNT(arm_features); ++i) {
    if (same(arm_features[i].name, text, length)) return &arm_features[i];
  }
  return NULL;
}

int iso_knows_feature(uint32_t machine, const char* feature, size_t length) {
  if (machine == ISO_MACHINE_X86_64) return find_x86(feature, length) != NULL;
  if (machine == ISO_MACHINE_AARCH64) return find_arm(feature, length) != NULL;
  return 0;
}

#if defined(__x86_64__)

static uint32_t saved_state(void) {
  uint32_t a, b, c, d;
  if (!__get_cpuid(1, &a, &b, &c, &d) || !(c >> 27 & 1)) return X87;
  uint32_t low, high;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return low;
}

/* Linux gives tile registers to a process that asks for them. */
static int may_use_tiles(void) { return syscall(ISO_SYS_ARCH_PRCTL, ISO_ARCH_REQUEST_STATE, ISO_STATE_TILE_DATA) == 0; }

static int has(const char* name, size_t length) {
  const x86_feature* f = find_x86(name, length);
  uint32_t regs[4];
  if (!f || !__get_cpuid_count(f->leaf, f->subleaf, &regs[0], &regs[1], &regs[2], &regs[3])) return 0;
  if (f->subleaf == 1 && f->leaf == 7) {
    uint32_t a, b, c, d;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || a < 1) return 0; /* there is no such subleaf */
  }
  if (!(regs[f->reg] >> f->bit & 1) || (saved_state() & f->state) != f->state) return 0;
  return f->state != AMX || may_use_tiles();
}

#else

static int has(const char* name, size_t length) {
  const arm_feature* f = find_arm(name, length);
  return f && (getauxval(f->word) >> f->bit & 1);
}

#endif

const char* iso_missing_feature(const char* features, size_t* length) {
  const char* at = features ? features : "";
  while (*at) {
    size_t n = 0;
    while (at[n] && at[n] != ',') ++n;
    if (n && !has(at, n)) {
      *length = n;
      return at;
    }
    at += at[n] ? n + 1 : n;
  }
  return NULL;
}
