// TestBed: the buffers of a kernel under measurement. Values exist once, weights as often as a pool has room for them; all
// of them between red zones. Memory is mapped as the runtime maps it, so that pages are of the same kind.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/expected.h"
#include "cost/measure.h"
#include "loop/stmt.h"

namespace isomer::cost {

class TestBed {
 public:
  struct Shape {
    uint64_t weight_pool = 0;  // bytes that copies of the weights may take,
    uint64_t least_pool = 0;   // that they take at least,
    size_t most_copies = 16;   // and more than that many copies only as far as the least asks for
    bool far_weights = false;  // in place of copies: what is in no cache when a kernel begins
    uint64_t traffic = 0;      // bytes that each thread reads between writing the values and the kernel
    int threads = 1;
    const loop::Target* tiles =
        nullptr;  // of a kernel that uses tile registers: their rate is looked at round each run
  };
  static Expected<std::unique_ptr<TestBed>> make(const loop::Function& function, const std::vector<Role>& roles,
                                                 const Shape& shape);
  ~TestBed();
  TestBed(const TestBed&) = delete;
  TestBed& operator=(const TestBed&) = delete;

  size_t copies() const { return copies_; }
  void* argument(size_t i, size_t copy) const;
  void fill_integers(int64_t value);
  bool intact() const;  // no red zone was written to

  // A kernel of the runtime's kind: task t of `threads` writes its share of the values that are read, and reads something
  // else. The only argument is the bed.
  static int32_t renew(void* const* arguments, int64_t begin, int64_t end, void* scratch);

  // For each kernel that ran since the last call of begin(): whether the system took no thread of this process off its
  // core meanwhile, the processor time of the process, and the lowest rate of tile registers that a thread had before or
  // after it.
  struct Circumstances {
    bool undisturbed = false;
    double cpu_seconds = 0;
    double tile_rate = 0;  // 0: not asked for
  };
  void begin();
  std::vector<Circumstances> circumstances();

 private:
  struct Region {
    std::byte* data = nullptr;
    uint64_t bytes = 0;
    DType dtype = DType::F32;
    size_t argument = 0, copy = 0;
    bool read = false;  // a value that the kernel reads
    bool weight = false;
  };
  TestBed() = default;
  void fill(const Region& region) const;

  std::byte* memory_ = nullptr;
  uint64_t bytes_ = 0;
  size_t copies_ = 1;
  Shape shape_;
  std::byte* junk_ = nullptr;
  struct Stamp {
    long preemptions = 0;
    double cpu_seconds = 0;
  };
  static Stamp stamp();
  std::vector<Stamp> stamps_;  // at the begin of renew and at its end, in turns
  // Of tile registers, the same, by task of renew: a task has a thread of its own, and the others' cores may be slower.
  std::vector<std::vector<double>> rates_;
  std::vector<Region> regions_;
};

}  // namespace isomer::cost
