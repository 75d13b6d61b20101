// Native: a graph compiled into this process, with as many contexts as run at the same time. Where Isomer is built without
// a code generator nothing can be compiled, and the reason says so.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/expected.h"
#include "driver/accuracy.h"
#include "ir/graph.h"
#include "tensor/tensor.h"

namespace isomer::compile {
class KernelCode;
class Threads;
struct Watch;
}  // namespace isomer::compile

namespace isomer::driver {

// Why nothing can be compiled where Isomer is built without a code generator.
inline Diagnostic no_generator() {
  return {"E-no-compiler", "this Isomer was built without a code generator (ISOMER_LLVM)"};
}

struct NativeOptions {
  int threads = 0;     // of one run; 0: one per core
  bool naive = false;  // every stage a kernel of its own, plain loops, floats in double: the compiled reference
  Accuracy accuracy = Accuracy::Checked;
  bool poison = false;                               // for tests: memory that no step has written yet is NaN
  bool profile = false;                              // measure every step
  int compile_threads = 0;                           // 0: one per core
  std::shared_ptr<compile::Threads> shared = {};     // with other graphs, in place of threads of its own
  std::shared_ptr<const compile::Watch> watch = {};  // that looks on between the steps
  std::shared_ptr<compile::KernelCode> code = {};    // with other graphs of this machine
  std::string dump = {};                             // folder for loops, LLVM's IR and assembly of every kernel
};

// What a compiled graph takes.
struct NativeFacts {
  size_t steps = 0, functions = 0;
  uint64_t arena_bytes = 0, least_arena_bytes = 0, weight_bytes = 0, scratch_bytes = 0;
  std::string target;
  AccuracyFacts accuracy;
};

// One step: what it is, and what it took while it was measured.
struct StepTime {
  std::string kernel, origin;
  int64_t tasks = 1;
  double flops = 0, bytes = 0;
  uint64_t runs = 0;
  double seconds = 0, fastest = 0;
};

class Native {
 public:
  static Expected<std::shared_ptr<Native>> build(const ir::Graph& graph, const NativeOptions& options);
  ~Native();
  Native(const Native&) = delete;
  Native& operator=(const Native&) = delete;

  // May be called by any number of threads at the same time.
  Expected<std::vector<Tensor>> run(const std::vector<Tensor>& inputs);
  NativeFacts facts() const;
  std::vector<StepTime> times() const;  // of the context that ran most; empty without `profile`

 private:
  struct Impl;
  explicit Native(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// What graphs that run one after the other share; null where nothing can be compiled.
std::shared_ptr<compile::Threads> shared_threads(int count);

// Whether there are sizes at which compiled code could take the node.
bool may_compile(const ir::Node& node);

// Whether a node is loops written by hand, at known sizes.
bool is_procedure(const ir::Node& node);

// Whether a node runs bodies: an executor can run these compiled where the whole cannot be.
bool has_bodies(const ir::Node& node);

// Whether compiled code can take all of the graph; the diagnostic names the first node that it cannot take. `bounded`: results may
// have sizes that data decides.
Expected<void> can_compile(const ir::Graph& graph, bool bounded = false);

}  // namespace isomer::driver
