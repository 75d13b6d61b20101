// ThreadPool: a fixed number of threads that share one numbered set of tasks. Which thread runs which task is fixed by
// the numbers alone, so a computation that writes task by task gives the same bytes with any number of threads.
// Tasks throw nothing. Threads start with the first run that needs them and end with the pool.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace isomer {

class ThreadPool {
 public:
  explicit ThreadPool(int threads = 0);  // 0: one per core
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int size() const { return threads_; }
  // Runs task(0) ... task(count - 1) and returns when all are done; the caller's thread takes part. Thread t runs the
  // tasks t, t + size(), ... in order. Not to be called from inside a task.
  void run(int count, const std::function<void(int)>& task);

 private:
  void work(int thread);

  const int threads_;
  std::vector<std::thread> workers_;
  std::mutex mutex_;
  std::condition_variable start_, done_;
  const std::function<void(int)>* task_ = nullptr;
  int count_ = 0;
  int busy_ = 0;
  uint64_t round_ = 0;
  bool stop_ = false;
};

}  // namespace isomer
