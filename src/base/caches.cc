#include "base/caches.h"

#include <fstream>

namespace isomer {
namespace {

std::string first_word(const std::string& path) {
  std::ifstream file(path);
  std::string word;
  file >> word;
  return word;
}

// "64K", "1M", "1024"; 0 for what is no size.
int64_t bytes_of(const std::string& text) {
  constexpr int64_t kMost = int64_t{1} << 40;
  int64_t n = 0;
  size_t i = 0;
  for (; i < text.size() && text[i] >= '0' && text[i] <= '9' && n < kMost; ++i) n = 10 * n + (text[i] - '0');
  const int64_t unit = i == text.size() ? 1 : text[i] == 'K' ? 1 << 10 : text[i] == 'M' ? 1 << 20 : 0;
  return n < kMost ? n * unit : 0;
}

}  // namespace

Caches read_caches(const std::string& folder) {
  constexpr int kMostCaches = 16;
  Caches out;
  for (int i = 0; i < kMostCaches; ++i) {
    const std::string one = folder + "/index" + std::to_string(i) + "/";
    const std::string level = first_word(one + "level");
    if (level.empty()) break;
    if (first_word(one + "type") == "Instruction") continue;
    const int64_t bytes = bytes_of(first_word(one + "size"));
    if (level == "1") out.l1_bytes = bytes;
    if (level == "2") out.l2_bytes = bytes;
  }
  return out;
}

}  // namespace isomer
