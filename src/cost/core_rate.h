// The rate at which this core works right now. Whoever shares it with us (the other half of it may be another tenant's) takes a
// third to a half of the vector units away, and most of the tile registers, for milliseconds to seconds: two times of a kernel are
// only comparable when they were taken at the same rate, or are converted to it.
#pragma once

#include <vector>

#include "loop/stmt.h"
#include "loop/target.h"

namespace isomer::cost {

// What a kernel's time depends on most.
enum class Units : uint8_t { Vectors, Tiles };

bool uses_tile_registers(const loop::Function& function);
// Tile registers where the function uses them, or the host's fastest units, as long as the target is this machine.
Units units_of(const loop::Function& function, const loop::Target& target);
Units fastest_units(const loop::Target& target);

// Operations per second of a loop of some ten microseconds on these units alone; 0 where the target has none, or is not the
// machine that this runs on. Leaves the calling thread's tile registers empty.
double core_rate(Units units, const loop::Target& target);
// The mean of as many threads at the same time: who is slower leaves tasks to the others.
double mean_core_rate(Units units, const loop::Target& target, int threads);

// Of each kind of units.
struct Rates {
  double vectors = 0, tiles = 0;
  double of(Units units) const { return units == Units::Tiles ? tiles : vectors; }
};
// The rates in every millisecond, the mean of the cores of so many threads.
std::vector<Rates> survey(const loop::Target& target, int threads, int moments);
// What most moments have by these units; a higher rate that nearly as many have comes first.
Rates usual_rates(const std::vector<Rates>& moments, Units units);

// How far the time of a run depends on the rate of the core's units: 1 when they alone decide, 0 when others do. Twice the rate
// means a time of 2^-share.
using CoreShare = double;
// What a run at this rate would have taken at the usual one. Rates of 0 are not known.
double at_usual_rate(double seconds, double rate, double usual, CoreShare share);
// Of a run, between two looks at the rate: seconds on the clock, and the mean rate of both.
struct Stretch {
  double seconds = 0, rate = 0;
};
using Stretches = std::vector<Stretch>;
double seconds_of(const Stretches& run);
double at_usual_rate(const Stretches& run, double usual, CoreShare share);
// Whether the two are so close that the share hardly matters.
bool is_usual(double rate, double usual);

}  // namespace isomer::cost
