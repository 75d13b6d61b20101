// The machine that kernels run on: its name for keys, its peaks for the analytic model.
#pragma once

#include <string>

#include "cost/roofline.h"
#include "loop/target.h"

namespace isomer::cost {

// Everything that a time depends on beside the kernel: the CPU by name, what it can do, its caches, the code generator, the
// number of threads.
std::string setting_text(const loop::Target& target, int threads);

// Measured in about a second.
Machine measure_machine(const loop::Target& target, int threads);

}  // namespace isomer::cost
