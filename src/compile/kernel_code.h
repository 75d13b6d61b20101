// KernelCode: native code of kernels in this process, by what they do. A kernel is timed in a hurry, in full, once more and in
// several states of the caches, and models that are compared with each other have most kernels in common: the code of each is made
// once for all of them, by whoever asks first, while others may be timing.
// Invariant: what was given out stays valid as long as it is held, also when this forgets it.
#pragma once

#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/expected.h"
#include "codegen/codegen.h"
#include "loop/stmt.h"
#include "loop/target.h"
#include "runtime/abi.h"

namespace isomer::compile {

struct Code {
  std::shared_ptr<const codegen::Jit> jit;  // keeps the entry alive
  iso_kernel entry = nullptr;
};

// The code of each function, made together on so many threads; 0: one per core.
Expected<std::vector<Code>> compile_together(const std::vector<const loop::Function*>& functions,
                                             const loop::Target& target, int threads);

class KernelCode {
 public:
  // Forgets what nobody asked for while so many others were made.
  explicit KernelCode(loop::Target target, size_t capacity = 1 << 10)
      : target_(std::move(target)), capacity_(capacity) {}

  struct Wanted {
    const loop::Function* function = nullptr;
    std::string_view signature;  // all that its code depends on
  };
  // One each, in order. What another thread is making is waited for. Those that were made together fail together.
  std::vector<Expected<Code>> of(const std::vector<Wanted>& wanted, int threads);

 private:
  using Made = std::shared_future<Expected<Code>>;
  using BySignature = std::unordered_map<std::string, Made>;

  // What is known of a signature; nothing where the caller has to make it.
  Made* find(const std::string& signature);

  const loop::Target target_;
  const size_t capacity_;
  std::mutex mutex_;  // of what follows
  BySignature recent_, older_;
};

}  // namespace isomer::compile
