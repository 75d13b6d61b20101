// What a function does, as bytes without names: two functions with one signature are the same kernel. Shorter than the
// text and quicker to make; the same in every process.
#pragma once

#include <string>

#include "loop/stmt.h"

namespace isomer::loop {

std::string signature(const Function& function);

}  // namespace isomer::loop
