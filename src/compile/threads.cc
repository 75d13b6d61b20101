#include "compile/threads.h"

namespace isomer::compile {

Threads::~Threads() {
  for (iso_pool* pool : idle_) iso_threads_stop(pool);
}

Expected<iso_pool*> Threads::take() {
  {
    const std::lock_guard lock(mutex_);
    if (!idle_.empty()) {
      iso_pool* pool = idle_.back();
      idle_.pop_back();
      return pool;
    }
  }
  iso_error error;
  iso_pool* pool = iso_threads_start(count_, &error);
  if (!pool) return Diagnostic("E-run", error.message);
  return pool;
}

void Threads::give(iso_pool* pool) {
  const std::lock_guard lock(mutex_);
  idle_.push_back(pool);
}

}  // namespace isomer::compile
