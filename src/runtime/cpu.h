/* What the CPU has, by LLVM's names of features: asked of the CPU and of the system, never guessed from a name. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Machines by ELF's numbers. */
enum { ISO_MACHINE_X86_64 = 62, ISO_MACHINE_AARCH64 = 183 };

/* The first of the comma-separated features that this CPU lacks or that the runtime does not know, as a piece of `features`;
 * NULL when all are there. */
const char* iso_missing_feature(const char* features, size_t* length);

/* Whether the runtime can ask a CPU of this machine for the feature. */
int iso_knows_feature(uint32_t machine, const char* feature, size_t length);

#ifdef __cplusplus
}
#endif
