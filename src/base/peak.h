// The machine's peaks, measured in the widest vectors that the CPU has: fused multiply-adds on registers, reading of memory.
#pragma once

#include <cstdint>

namespace isomer {

// float32 operations per second of this many threads (0: one per core) at the same time; a product and a sum are two. Takes
// some tens of milliseconds.
double measure_peak_flops(int threads);

// The same of this thread right now, looked at for some ten microseconds, by a small product of matrices that come out of the near
// caches as those of kernels do: who shares the core takes units away, and room and ways to its caches.
double momentary_flops();

// Bytes per second that one thread reads of so many of them, again and again, from the cache that holds them or from memory; 0
// where there is no room.
double measure_bandwidth(uint64_t bytes);

}  // namespace isomer
