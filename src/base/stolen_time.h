// Time that the host of a virtual machine gave to others while this machine had work for its processors. It comes in pieces of up to
// some hundred milliseconds, and what runs meanwhile is timed at many times what it takes.
#pragma once

#include <iosfwd>

namespace isomer {

// Seconds since the start, of all processors together, in steps of a hundredth; 0 where the system does not tell.
double stolen_seconds();
double stolen_seconds(std::istream& stat);  // what /proc/stat says

// Whether some was stolen between two moments. A question costs up to a tenth of a millisecond.
class StolenTime {
 public:
  StolenTime() : seen_(stolen_seconds()) {}
  bool grew();  // since the last question, or since this was made

 private:
  double seen_;
};

}  // namespace isomer
