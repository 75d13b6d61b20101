// Progress: one line on stderr that says how far a long run is, and goes away when it ends. It shows itself only on a
// terminal, and only once the run has taken a while.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>

namespace isomer::tool {

class Progress {
 public:
  explicit Progress(std::string what, std::string unit = "nodes");
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void show(size_t done, size_t total);
  // What else there is to say from now on; "" for nothing.
  void note(std::string text) { note_ = std::move(text); }

 private:
  const std::string what_, unit_;
  std::string note_;
  const bool terminal_;
  bool shown_ = false;
  const std::chrono::steady_clock::time_point start_;
  std::chrono::steady_clock::time_point next_;
};

}  // namespace isomer::tool
