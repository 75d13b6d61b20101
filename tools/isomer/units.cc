#include "isomer/units.h"

#include <fmt/format.h>

#include <ctime>

namespace isomer::tool {
namespace {

std::string scaled(int64_t n, const char* unit) {
  static constexpr const char* kPrefixes[] = {"", "k", "M", "G", "T", "P"};
  auto v = static_cast<double>(n);
  size_t i = 0;
  for (; v >= 1000 && i + 1 < std::size(kPrefixes); ++i) v /= 1000;
  return i == 0 ? fmt::format("{} {}", n, unit) : fmt::format("{:.2f} {}{}", v, kPrefixes[i], unit);
}

}  // namespace

std::string count(int64_t n) {
  std::string s = scaled(n, "");
  if (s.back() == ' ') s.pop_back();
  return s;
}
std::string bytes(int64_t n) { return scaled(n, "B"); }

std::string duration(double seconds) {
  if (seconds < 1e-3) return fmt::format("{:.1f} us", seconds * 1e6);
  return seconds < 1 ? fmt::format("{:.3f} ms", seconds * 1e3) : fmt::format("{:.3f} s", seconds);
}

std::string day(int64_t seconds) {
  const std::time_t t = seconds;
  std::tm parts = {};
  char text[32] = "-";
  if (seconds > 0 && gmtime_r(&t, &parts)) std::strftime(text, sizeof text, "%Y-%m-%d", &parts);
  return text;
}

}  // namespace isomer::tool
