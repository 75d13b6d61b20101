// The rate at which this core works right now. Whoever shares it with us (the other half of it may be another tenant's) takes a
// third to a half of the vector units away, and most of the tile registers, for milliseconds to seconds: two times of a kernel are
// only comparable when they were taken at the same rate.
#pragma once

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

// The best rates that were seen.
class BestRates {
 public:
  double of(Units units) const { return units == Units::Tiles ? tiles_ : vectors_; }
  void see(Units units, double rate);
  void see(const BestRates& others);
  // Whether a rate is that of a core that is not shared right now: no less than this.
  bool is_full(Units units, double rate) const { return rate >= least_full(units); }
  double least_full(Units units) const;

 private:
  double vectors_ = 0, tiles_ = 0;
};

}  // namespace isomer::cost
