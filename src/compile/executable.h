// Executable: a graph compiled into this process: plan, kernels and weights, ready to run. It never changes; any number of
// Runners may run it at the same time.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/expected.h"
#include "compile/lower.h"
#include "compile/threads.h"
#include "ir/graph.h"
#include "runtime/abi.h"
#include "runtime/isomer.h"
#include "tensor/tensor.h"

namespace isomer::compile {

class KernelCode;

// A kernel of the caller's that runs between the steps of a plan, as often as they are expected to take so long; in front of the
// first and behind the last there is none. Plans with jumps have none at all.
struct Watch {
  iso_kernel kernel = nullptr;
  void* argument = nullptr;
  int tasks = 1;
  double seconds = 0;
};
inline constexpr const char* kWatchStep = "watch";  // the function of its steps

struct ExecutableOptions {
  LowerOptions lower;
  bool wide = false;          // floats in double: with lower.fuse off, the naive reference
  int compile_threads = 0;    // 0: one per core
  std::string dump_dir = {};  // per kernel: loops, LLVM's IR, assembly
  Watch watch = {};
  // Kernels that were made before are taken from here, and others kept: of the same target. Not of `wide`, nor where there is a dump.
  KernelCode* code = nullptr;
};

class Executable {
 public:
  static Expected<std::shared_ptr<const Executable>> build(const ir::Graph& graph, const ir::OpTable& table,
                                                           const ExecutableOptions& options);
  ~Executable();
  Executable(const Executable&) = delete;
  Executable& operator=(const Executable&) = delete;

  const Plan& plan() const;
  uint64_t least_arena_bytes() const;
  size_t function_count() const;

 private:
  friend class Runner;
  struct Impl;
  explicit Executable(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// The memory and threads of one run at a time.
class Runner {
 public:
  // `flags` of iso_new_context (ISO_POISON, ISO_PROFILE).
  static Expected<Runner> make(std::shared_ptr<const Executable> executable, int threads, uint32_t flags = 0);
  // Its runs take turns with those of others.
  static Expected<Runner> make(std::shared_ptr<const Executable> executable, std::shared_ptr<Threads> threads,
                               uint32_t flags = 0);
  Runner(Runner&&) noexcept;
  Runner& operator=(Runner&&) noexcept;
  ~Runner();

  // Values in the order of the graph's inputs, of its types and shapes.
  Expected<std::vector<Tensor>> run(const std::vector<Tensor>& inputs);
  // The same into tensors of an earlier run, which nothing else refers to.
  Expected<void> run_into(const std::vector<Tensor>& inputs, std::vector<Tensor>& outputs);
  std::vector<iso_profile> profile() const;

 private:
  Runner(std::shared_ptr<const Executable> executable, iso_context* context);
  std::shared_ptr<const Executable> executable_;
  iso_context* context_ = nullptr;
  std::shared_ptr<Threads> threads_;  // where they are shared
};

}  // namespace isomer::compile
