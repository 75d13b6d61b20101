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

// Of each kind of units.
struct Rates {
  double vectors = 0, tiles = 0;
  double of(Units units) const { return units == Units::Tiles ? tiles : vectors; }
};
Rates core_rates(const loop::Target& target);
// The mean of as many threads at the same time: who is slower leaves tasks to the others.
Rates mean_core_rates(const loop::Target& target, int threads);
Rates mean_of(const std::vector<Rates>& rates);
// The rates in every millisecond, the mean of the cores of so many threads.
std::vector<Rates> survey(const loop::Target& target, int threads, int moments);
// What most moments have by these units; a higher rate that nearly as many have comes first.
Rates usual_rates(const std::vector<Rates>& moments, Units units);

// The seconds at the usual rates that each of what a kernel, or a whole model, needs takes one after the other. Beside a neighbour
// vectors have three quarters of their rate, tile registers less than half of it, and memory nearly all: one rate says little
// about a kernel that packs its operands by vectors, waits for them and multiplies them in tile registers.
struct Mix {
  double vectors = 0, tiles = 0, memory = 0;

  double seconds() const { return vectors + tiles + memory; }
  void add(const Mix& other);
  Mix scaled_to(double seconds) const;  // where it has any
  // How many times as long it takes at these rates as at the usual ones; 1 where nothing is known.
  double slowdown(const Rates& now, const Rates& usual) const;
};
// Of a run, between two looks at the rates: seconds on the clock, and the mean rates of both looks.
struct WatchedStretch {
  double seconds = 0;
  Rates rates = {};
};
using WatchedRun = std::vector<WatchedStretch>;
double seconds_of(const WatchedRun& run);
double at_usual_rates(const WatchedRun& run, const Rates& usual, const Mix& mix);
// Whether the two are so close that hardly anything is converted.
bool is_usual(double rate, double usual);

}  // namespace isomer::cost
