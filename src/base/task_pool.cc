#include "base/task_pool.h"

#include <algorithm>

namespace isomer {

TaskPool::TaskPool(int threads, Quiet* quiet) : threads_(std::clamp(threads, 1, 256)), quiet_(quiet) {}

TaskPool::~TaskPool() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  for (std::thread& t : workers_) t.join();
}

// The newest set with tasks that nobody has begun.
TaskPool::Set* TaskPool::open_set() {
  const auto it = std::find_if(sets_.rbegin(), sets_.rend(), [](const Set* s) { return s->next < s->count; });
  return it == sets_.rend() ? nullptr : *it;
}

// One task of the set.
void TaskPool::work_on(Set& set, std::unique_lock<std::mutex>& lock) {
  const int i = set.next++;
  lock.unlock();
  {
    const Quiet::Work work(quiet_);
    (*set.task)(i);
  }
  lock.lock();
  if (--set.left == 0) changed_.notify_all();
}

void TaskPool::run(int count, const std::function<void(int)>& task) {
  if (count <= 1 || threads_ == 1) {
    for (int i = 0; i < count; ++i) task(i);
    return;
  }
  Set set{&task, count, 0, count};
  std::unique_lock lock(mutex_);
  while (workers_.size() + 1 < static_cast<size_t>(threads_)) workers_.emplace_back([this] { work(); });
  sets_.push_back(&set);
  changed_.notify_all();
  while (set.left > 0) {
    Set* next = set.next < set.count ? &set : open_set();
    if (next)
      work_on(*next, lock);
    else
      wait(lock);
  }
  std::erase(sets_, &set);
}

void TaskPool::work() {
  std::unique_lock lock(mutex_);
  while (!stop_) {
    if (Set* set = open_set())
      work_on(*set, lock);
    else
      wait(lock);
  }
}

// For some change. Not with the lock that others need who have to stop before this thread can go on.
void TaskPool::wait(std::unique_lock<std::mutex>& lock) {
  const int works = quiet_ ? quiet_->stop() : 0;
  changed_.wait(lock);
  if (works == 0) return;
  lock.unlock();
  quiet_->go_on(works);
  lock.lock();
}

}  // namespace isomer
