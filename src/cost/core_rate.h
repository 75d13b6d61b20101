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
double at_usual_rate(const Stretches& run, double usual, CoreShare share);

// What runs when a whole model does: kernels on either kind of units, by their seconds at the usual rates. Beside a neighbour vectors have
// three quarters of their rate while tile registers have less than half, so that one rate says little about a run of both.
class Mix {
 public:
  void add(Units units, double seconds, CoreShare share);
  void add(const Mix& other);
  // How many times as long it takes at these rates as at the usual ones; 1 where nothing is known.
  double slowdown(const Rates& now, const Rates& usual) const;

 private:
  struct Part {
    double seconds = 0, of_core = 0;
  };
  Part vectors_, tiles_;
};
// Of a run of many kernels, between two looks at the rates.
struct WatchedStretch {
  double seconds = 0;
  Rates rates = {};
};
using WatchedRun = std::vector<WatchedStretch>;
double seconds_of(const WatchedRun& run);
double at_usual_rates(const WatchedRun& run, const Rates& usual, const Mix& mix);
// Whether the two are so close that the share hardly matters.
bool is_usual(double rate, double usual);

}  // namespace isomer::cost
