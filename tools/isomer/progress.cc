#include "isomer/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "isomer/command.h"

namespace isomer::tool {
namespace {

constexpr std::chrono::milliseconds kFirst{300}, kEvery{100};
constexpr const char* kClear = "\r\033[K";  // to the line's start, then erase it

}  // namespace

Progress::Progress(std::string what, std::string unit)
    : what_(std::move(what)),
      unit_(std::move(unit)),
      terminal_(isatty(STDERR_FILENO) == 1),
      start_(std::chrono::steady_clock::now()),
      next_(start_ + kFirst) {}

Progress::~Progress() {
  if (shown_) fmt::print(stderr, "{}", kClear);
}

void Progress::show(size_t done, size_t total) {
  if (!terminal_) return;
  const auto now = std::chrono::steady_clock::now();
  if (now < next_) return;
  next_ = now + kEvery;
  shown_ = true;
  fmt::print(stderr, "{}{}: {} of {} {} ({}%), {:.1f} s{}{}", kClear, printable(what_, 40), done, total, unit_,
             done * 100 / std::max<size_t>(1, total), std::chrono::duration<double>(now - start_).count(),
             note_.empty() ? "" : "; ", note_);
  std::fflush(stderr);
}

}  // namespace isomer::tool
