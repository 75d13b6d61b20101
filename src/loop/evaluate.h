// Runs a function of loops by its meaning: floats in double, integers wrapped, one statement after the other. Slow and
// simple; what code generators and schedules are tested against. Loops whose iterations may come in any order run
// backwards, and a task starts with poisoned scratch memory, so that wrong promises show.
#pragma once

#include <vector>

#include "base/expected.h"
#include "loop/stmt.h"
#include "tensor/tensor.h"

namespace isomer::loop {

// The arguments after the run; those that are written start with the given contents. An update of a float place is not
// rounded until the function ends, so that the order of a sum does not show.
Expected<std::vector<Tensor>> evaluate(const Function& function, const std::vector<Tensor>& arguments);

}  // namespace isomer::loop
