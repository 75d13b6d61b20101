// Quiet: threads that work, and one of them at a time that needs the machine for itself. Who asks for it stops working, waits until all
// others have stopped too (at the end of what they do, where they wait, or because they ask for the same), and has it alone;
// nobody begins or goes on meanwhile.
// Invariant: nobody works while one is alone, and one is alone at a time. A thread that waits for another one does not count as working,
// so that no two wait for each other.
#pragma once

#include <condition_variable>
#include <mutex>
#include <thread>
#include <unordered_map>

namespace isomer {

class Quiet {
 public:
  // What this thread works on; may be nested. Begins when nobody has or wants to be alone.
  class Work {
   public:
    explicit Work(Quiet* quiet);  // nullptr: nobody asks
    ~Work();
    Work(const Work&) = delete;
    Work& operator=(const Work&) = delete;

   private:
    Quiet* const quiet_;
  };

  // This thread has the machine for itself.
  class Alone {
   public:
    explicit Alone(Quiet& quiet);
    ~Alone();
    Alone(const Alone&) = delete;
    Alone& operator=(const Alone&) = delete;

   private:
    Quiet& quiet_;
    const int works_;
  };

  // Round a wait for other threads: stops all works of this one, and goes on with as many.
  int stop();
  void go_on(int works);

 private:
  bool free() const { return !alone_ && wanting_ == 0; }

  std::mutex mutex_;  // of what follows
  std::condition_variable changed_;
  std::unordered_map<std::thread::id, int> works_;  // of each thread, that are nested
  int working_ = 0, wanting_ = 0;                   // threads
  bool alone_ = false;
};

}  // namespace isomer
