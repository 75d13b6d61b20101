// Threads: what the runs of several compiled graphs share, so that a model in pieces has the threads of one. Runs at the same
// time get threads of their own; those that are not in use sleep.
#pragma once

#include <mutex>
#include <vector>

#include "base/expected.h"
#include "runtime/abi.h"

namespace isomer::compile {

class Threads {
 public:
  explicit Threads(int count) : count_(count) {}  // 0: one per CPU
  ~Threads();
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;

  int count() const { return count_; }
  // For one run; goes back by give().
  Expected<iso_pool*> take();
  void give(iso_pool* pool);

 private:
  const int count_;
  std::mutex mutex_;
  std::vector<iso_pool*> idle_;
};

}  // namespace isomer::compile
