#include "isomer/units.h"

#include <fmt/format.h>

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

}  // namespace isomer::tool
