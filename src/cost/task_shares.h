// How the bytes that a kernel writes lie in its buffer by the threads that write them. Each thread has one of the equal parts of
// the tasks, from the first on: what they write lies in one piece, or in a slice of each row.
#pragma once

#include <cstdint>

#include "loop/stmt.h"

namespace isomer::cost {

// Of each so many bytes of the buffer every thread writes the slice of its number.
uint64_t period_of_shares(const loop::Function& function, int buffer, int threads);

}  // namespace isomer::cost
