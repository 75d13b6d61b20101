// TaskPool: threads that work through numbered sets of tasks, each task by whoever is free. A task may have a set of its own
// worked through: the newest set comes first, and who waits for the end of one helps with the others.
// Tasks throw nothing, and hold no lock while they have a set worked through. Threads start with the first run that needs them and
// end with the pool. Where a pool has a Quiet, its threads count as working while they have a task.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "base/quiet.h"

namespace isomer {

class TaskPool {
 public:
  explicit TaskPool(int threads, Quiet* quiet = nullptr);
  ~TaskPool();
  TaskPool(const TaskPool&) = delete;
  TaskPool& operator=(const TaskPool&) = delete;

  // Runs task(0) ... task(count - 1), begun in this order, and returns when all are done; the caller's thread takes part.
  void run(int count, const std::function<void(int)>& task);

 private:
  struct Set {
    const std::function<void(int)>* task;
    int count, next, left;  // `left`: not done yet
  };
  Set* open_set();
  void work_on(Set& set, std::unique_lock<std::mutex>& lock);
  void work();
  void wait(std::unique_lock<std::mutex>& lock);

  const int threads_;
  Quiet* const quiet_;
  std::vector<std::thread> workers_;
  std::mutex mutex_;  // of what follows
  std::condition_variable changed_;
  std::vector<Set*> sets_;  // those that are not done, the newest last
  bool stop_ = false;
};

}  // namespace isomer
