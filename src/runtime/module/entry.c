/* The entry of a module: chooses the program for this CPU. Compiled into modules only. */
#include "runtime/cpu.h"
#include "runtime/failure.h"
#include "runtime/model.h"
#include "runtime/module/module.h"

#define HIDDEN __attribute__((visibility("hidden")))

HIDDEN extern const iso_module iso_module_data;                   /* the writer's tables */
HIDDEN extern const volatile iso_module_place iso_module_weights; /* volatile: filled in after linking */
HIDDEN extern const char __ehdr_start[];                          /* the linker's name of the image's first byte */

__attribute__((visibility("default"))) iso_model* iso_module_v2(iso_error* error) {
  const iso_module* module = &iso_module_data;
  if (module->abi_version != ISO_ABI_VERSION || module->variant_count == 0 || module->size_count == 0) {
    iso_fail(error, ISO_BAD_VERSION, "The module has version %u of the kernels' interface, and its runtime has %u.",
             module->abi_version, (unsigned)ISO_ABI_VERSION);
    return NULL;
  }
  /* The last one is the least demanding: its refusal is the one to report. */
  const iso_program* programs = &module->programs[(module->variant_count - 1) * module->size_count];
  for (uint32_t i = 0; i < module->variant_count; ++i) {
    size_t length = 0;
    if (!iso_missing_feature(module->programs[i * module->size_count].features, &length)) {
      programs = &module->programs[i * module->size_count];
      break;
    }
  }
  return iso_open_programs_at(programs, module->size_count, __ehdr_start + iso_module_weights.weights_address, error);
}
