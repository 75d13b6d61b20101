// The cores of this machine, as a number of threads: one at least, also where the system does not say.
#pragma once

namespace isomer {

int cores();

}  // namespace isomer
