// TestBed: the buffers of a kernel under measurement, brought before each run to where a model would have them (reach.h). What is
// near exists once and is touched; what is behind the near caches exists as often as a pool has room for it, and the runs of
// the kernel take the copies in turns. All of them lie between red zones. Memory is mapped as the runtime maps it, so that pages
// are of the same kind.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "base/expected.h"
#include "cost/core_rate.h"
#include "cost/measure.h"
#include "cost/reach.h"
#include "loop/stmt.h"

namespace isomer::cost {

class TestBed {
 public:
  static constexpr size_t kMostCopies = 16;  // of what is behind the near caches, unless more are asked for
  struct Shape {
    std::vector<Reach> reaches;        // by argument
    std::vector<bool> weights;         // by argument: no step of a run writes them
    std::vector<size_t> same;          // by argument: the first that lies in the same place; empty: all have their own
    uint64_t least_pool = 0;           // bytes that copies take at least, where the pools ask for so many,
    size_t most_copies = kMostCopies;  // and more than that many copies only as far as the least asks for
    uint64_t traffic = 0;  // bytes that each thread reads after touching what is Second, where its reach does not say
    uint64_t round = 0;    // bytes that the runs of all copies touch: what is touched may have been far before
    int threads = 1;
    // Of the kernel; when it is there, rates are looked at round each run: those of the vectors, and of tile registers if they are the
    // kernel's `units`.
    const loop::Target* target = nullptr;
    Units units = Units::Vectors;
    double usual_rate = 0;  // of the units: a run waits a little for it
  };
  static Expected<std::unique_ptr<TestBed>> make(const loop::Function& function, const Shape& shape);
  ~TestBed();
  TestBed(const TestBed&) = delete;
  TestBed& operator=(const TestBed&) = delete;

  size_t copies() const { return copies_; }  // runs of the kernel in which each copy has its turn
  void* argument(size_t i, size_t copy) const;
  void fill_integers(int64_t value);
  bool intact() const;  // no red zone was written to

  // A kernel of the runtime's kind: task t of `threads` brings its share of the arguments to where they shall be. The arguments are
  // the bed and, as an address, the number of the copies that the kernel takes next.
  static int32_t renew(void* const* arguments, int64_t begin, int64_t end, void* scratch);

  // The kernel whose address is behind the bed's: each thread looks at its rate between the tasks too, about every kBetweenLooks.
  // The kernel's own arguments follow.
  static int32_t run_watched(void* const* arguments, int64_t begin, int64_t end, void* scratch);
  static constexpr double kBetweenLooks = 0.002;  // seconds

  // At a thread's rates, while the kernel ran: seconds since its begin, and those that the look took.
  struct Look {
    double at = 0, seconds = 0;
    Rates rates = {};
  };
  // For each kernel that ran since the last call of begin(): whether the system took no thread of this process off its
  // core meanwhile, the processor time of the process, and the mean rates of the threads before and after it.
  struct Circumstances {
    bool undisturbed = false;
    double cpu_seconds = 0;
    Rates before = {}, after = {};              // 0: not asked for
    std::vector<std::vector<Look>> looks = {};  // by thread that had any of its tasks, where it was watched
  };
  void begin();
  std::vector<Circumstances> circumstances();

 private:
  struct Region {
    std::byte* data = nullptr;
    uint64_t bytes = 0;
    DType dtype = DType::F32;
    size_t argument = 0, copy = 0;
    Reach reach;
    bool weight = false;
    bool changed = false;             // the kernel writes over what it reads: it has to be written anew
    std::vector<std::byte> contents;  // repeated
  };
  TestBed() = default;
  void count_copies(const loop::Function& function);
  void order_touches();
  bool own(size_t argument) const { return argument >= shape_.same.size() || shape_.same[argument] == argument; }
  bool rotates(const Reach& reach, uint64_t bytes) const;
  size_t copies_of(size_t argument) const;
  void add(const loop::Function& function, size_t argument, size_t copy, std::byte* at);
  static void fill(const Region& region, uint64_t begin, uint64_t end);
  void touch(const Reach& reach, size_t copy, uint64_t begin, uint64_t end) const;
  uint64_t traffic_of(const Reach& reach) const;
  void prepare(size_t copy, uint64_t begin, uint64_t end) const;

  std::byte* memory_ = nullptr;
  uint64_t bytes_ = 0;
  size_t copies_ = 1;
  std::vector<size_t> copies_of_;  // by argument
  uint64_t copied_ = 0;            // bytes of what there are copies of
  struct Group {
    Reach reach;
    uint64_t bytes = 0, arguments = 0;
    uint64_t traffic = 0;  // bytes that each thread touches after them
  };
  std::vector<Group> touched_;  // in the order in which they are
  Shape shape_;
  std::byte* junk_ = nullptr;
  uint64_t most_traffic_ = 0;  // bytes of junk of each thread
  uint64_t push_ = 0;  // bytes that are read before each run, others each time: copies alone would stay in near caches
  std::byte* pushed_ = nullptr;
  struct Stamp {
    long preemptions = 0;
    double cpu_seconds = 0;
  };
  static Stamp stamp();
  Rates rates_now() const;
  Rates mean_rates(size_t look) const;  // of all threads
  void look_between();
  struct Watched {
    std::thread::id thread;
    std::chrono::steady_clock::time_point looked;
    std::vector<Look> looks = {};
  };
  struct Run {
    std::chrono::steady_clock::time_point begin;
    std::vector<Watched> threads = {};
  };
  std::mutex watching_;  // of what follows
  std::vector<Run> runs_;
  std::vector<Stamp> stamps_;  // at the begin of renew and at its end, in turns
  // By task of renew, which has a thread of its own: the others' cores may be slower.
  struct Thread {
    std::vector<Rates> rates = {};  // when stamps were made
    Rates last = {};                // looked at,
    std::chrono::steady_clock::time_point looked = {};
    int patience = 0;  // looks that waiting may still take
  };
  void look(Thread& thread, bool waits) const;
  std::vector<Thread> threads_;
  std::vector<Region> regions_;
};

}  // namespace isomer::cost
