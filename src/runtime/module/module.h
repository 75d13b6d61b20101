/* What the writer of modules and the entry inside a module agree on. */
#pragma once

#include "runtime/abi.h"

/* For each class of CPU, the most demanding first, one program for each set of sizes. All share the weights. */
typedef struct {
  uint32_t abi_version;
  uint32_t variant_count; /* classes of CPUs */
  uint32_t size_count;
  const iso_program* programs; /* class by class */
} iso_module;

/* Known only when the file is complete: the writer fills it in after linking. Addresses count from the start of the image. */
typedef struct {
  uint64_t weights_address;
  uint64_t weights_bytes;
} iso_module_place;
