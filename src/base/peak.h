// The machine's arithmetic peak, measured: fused multiply-adds on registers, in the widest vectors that the CPU has.
#pragma once

namespace isomer {

// float32 operations per second of this many threads (0: one per core) at the same time; a product and a sum are two. Takes
// some tens of milliseconds.
double measure_peak_flops(int threads);

// The same of this thread right now, looked at for some ten microseconds, by a small product of matrices that come out of the near
// caches as those of kernels do: who shares the core takes units away, and room and ways to its caches.
double momentary_flops();

}  // namespace isomer
