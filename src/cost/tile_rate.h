// The rate at which tile registers multiply right now. Whoever shares the core with us (the other half of it may be another
// tenant's) takes most of it away for milliseconds to seconds, while vector instructions keep their pace: two times of a
// kernel are only comparable when they were taken at the same rate.
#pragma once

#include "loop/stmt.h"
#include "loop/target.h"

namespace isomer::cost {

bool uses_tile_registers(const loop::Function& function);

// Operations per second of a loop of some ten microseconds on tile registers alone; 0 where the target has none, or is not
// the machine that this runs on. Leaves the calling thread's tile registers empty.
double tile_register_rate(const loop::Target& target);

}  // namespace isomer::cost
