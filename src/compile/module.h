// Modules: a compiled model as one shared library that needs nothing of Isomer. The file is the linked library (kernels,
// tables, runtime), the weights as a read-only segment that loaders map from the file, and a seal (runtime/isomer_seal.h).
// The same input gives the same bytes.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/expected.h"
#include "compile/plan.h"

namespace isomer::compile {

// One way to run the model: a plan and the objects that hold its kernels.
struct Variant {
  Plan plan;
  std::vector<std::string_view> objects;  // relocatable ELF files for the plan's target
};

struct ModuleSize {
  uint64_t file = 0;
  uint64_t weights = 0;  // of it; equal weights of several variants are stored once
};

// Variants in the order of preference: the first that a CPU has all features for is used. With `sizes` above 1 each of them is
// so many plans, one after the other: the model at several sizes, and a run takes the plan that its inputs have. All are of one
// architecture, have the same inputs and outputs (at equal sizes), and no two have a kernel of the same name.
Expected<ModuleSize> write_module(const std::string& path, const std::vector<Variant>& variants, size_t sizes = 1);

}  // namespace isomer::compile
