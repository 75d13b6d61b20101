// Budget: seconds that began when it was made, for all that is done with them.
#pragma once

#include <algorithm>
#include <chrono>

namespace isomer::driver {

class Budget {
 public:
  explicit Budget(double seconds) : seconds_(seconds) {}

  double seconds() const { return seconds_; }
  // Until this share of it is gone.
  double left(double share = 1) const {
    const std::chrono::duration<double> gone = std::chrono::steady_clock::now() - begin_;
    return std::max(0.0, share * seconds_ - gone.count());
  }
  // One that began with this one and is over when this share of it is gone.
  Budget part(double share) const {
    Budget out = *this;
    out.seconds_ *= share;
    return out;
  }

 private:
  double seconds_;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

}  // namespace isomer::driver
