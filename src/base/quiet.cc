#include "base/quiet.h"

#include <utility>

namespace isomer {

Quiet::Work::Work(Quiet* quiet) : quiet_(quiet) {
  if (!quiet_) return;
  std::unique_lock lock(quiet_->mutex_);
  int& works = quiet_->works_[std::this_thread::get_id()];
  if (works++ > 0) return;
  quiet_->changed_.wait(lock, [&] { return quiet_->free(); });
  ++quiet_->working_;
}

Quiet::Work::~Work() {
  if (!quiet_) return;
  const std::lock_guard lock(quiet_->mutex_);
  if (--quiet_->works_[std::this_thread::get_id()] > 0) return;
  --quiet_->working_;
  quiet_->changed_.notify_all();
}

int Quiet::stop() {
  const std::lock_guard lock(mutex_);
  const int works = std::exchange(works_[std::this_thread::get_id()], 0);
  if (works > 0) {
    --working_;
    changed_.notify_all();
  }
  return works;
}

void Quiet::go_on(int works) {
  if (works == 0) return;
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return free(); });
  works_[std::this_thread::get_id()] = works;
  ++working_;
}

Quiet::Alone::Alone(Quiet& quiet) : quiet_(quiet), works_(quiet.stop()) {
  std::unique_lock lock(quiet_.mutex_);
  ++quiet_.wanting_;
  quiet_.changed_.wait(lock, [&] { return !quiet_.alone_ && quiet_.working_ == 0; });
  --quiet_.wanting_;
  quiet_.alone_ = true;
}

Quiet::Alone::~Alone() {
  {
    const std::lock_guard lock(quiet_.mutex_);
    quiet_.alone_ = false;
    quiet_.changed_.notify_all();
  }
  quiet_.go_on(works_);
}

}  // namespace isomer
