#include "base/thread_pool.h"

#include <algorithm>

#include "base/cores.h"

namespace isomer {
namespace {

int thread_count(int asked) {
  if (asked > 0) return std::min(asked, 256);
  return std::min(cores(), 256);
}

}  // namespace

ThreadPool::ThreadPool(int threads) : threads_(thread_count(threads)) {}

ThreadPool::~ThreadPool() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  start_.notify_all();
  for (std::thread& t : workers_) t.join();
}

void ThreadPool::run(int count, const std::function<void(int)>& task) {
  if (count <= 1 || threads_ == 1) {
    for (int i = 0; i < count; ++i) task(i);
    return;
  }
  if (workers_.empty())
    for (int t = 1; t < threads_; ++t) workers_.emplace_back([this, t] { work(t); });
  {
    const std::lock_guard lock(mutex_);
    task_ = &task;
    count_ = count;
    busy_ = threads_ - 1;
    ++round_;
  }
  start_.notify_all();
  for (int i = 0; i < count; i += threads_) task(i);
  std::unique_lock lock(mutex_);
  done_.wait(lock, [this] { return busy_ == 0; });
}

void ThreadPool::work(int thread) {
  uint64_t seen = 0;
  std::unique_lock lock(mutex_);
  while (true) {
    start_.wait(lock, [&] { return stop_ || round_ != seen; });
    if (stop_) return;
    seen = round_;
    const auto* task = task_;
    const int count = count_;
    lock.unlock();
    for (int i = thread; i < count; i += threads_) (*task)(i);
    lock.lock();
    if (--busy_ == 0) done_.notify_one();
  }
}

}  // namespace isomer
