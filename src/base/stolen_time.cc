#include "base/stolen_time.h"

#include <unistd.h>

#include <fstream>
#include <istream>
#include <string>
#include <utility>

namespace isomer {
namespace {

constexpr int kField = 8;  // behind "cpu": user, nice, system, idle, iowait, irq, softirq, steal

}  // namespace

double stolen_seconds() {
  std::ifstream stat("/proc/stat");
  return stolen_seconds(stat);
}

double stolen_seconds(std::istream& stat) {
  std::string name;
  long long ticks = 0;
  stat >> name;
  for (int i = 0; i < kField; ++i) stat >> ticks;
  return stat && name == "cpu" ? static_cast<double>(ticks) / static_cast<double>(sysconf(_SC_CLK_TCK)) : 0;
}

bool StolenTime::grew() {
  const double now = stolen_seconds();
  return std::exchange(seen_, now) < now;
}

}  // namespace isomer
