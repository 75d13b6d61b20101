// Executor: runs any model. What can be compiled is compiled, at the sizes that the inputs have; control flow that cannot be as a
// whole is driven, its bodies compiled; the rest runs by its reference kernels, and the report says which nodes and why. Results do not depend on threads or on earlier runs.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/expected.h"
#include "driver/native.h"
#include "driver/partition.h"
#include "ir/graph.h"
#include "tensor/tensor.h"

namespace isomer::driver {

struct ExecutorOptions {
  NativeOptions native;
  bool optimise = true;    // graph passes before compilation
  bool reference = false;  // nothing is compiled: the interpreter runs everything
  bool wide = false;       // of the interpreter alone, see interp::Options
  size_t variants = 8;     // compiled versions of one graph that are kept, for other sizes of its inputs
  // Compile also what is so small that interpreting it is quicker than compiling: parts behind sizes that a run tells, and
  // bodies of control flow.
  bool eager = false;
  // Of the interpreter: nodes done and nodes in all.
  std::function<void(size_t done, size_t total)> progress = nullptr;
};

// The answer to "what would run how", and to "what ran how".
struct NodeReport {
  std::string node, op;
  By by = By::Compiled;
  std::string reason;
};

struct ExecutorFacts {
  NativeFacts native;   // sums over all compiled pieces
  size_t pieces = 0;    // compiled
  size_t versions = 0;  // kept for other sizes of the inputs, this one included
  size_t compiled = 0, reference = 0,
         later = 0;  // nodes of the graph itself, after passes; driven ones count as compiled
  double pass_seconds = 0, compile_seconds = 0;
};

class Variants;

class Executor {
 public:
  // Compiles at once where the sizes of all inputs are known, else on the first run with each of them.
  static Expected<Executor> make(const ir::Graph& graph, const ExecutorOptions& options = {});
  Executor(Executor&&) noexcept;
  Executor& operator=(Executor&&) noexcept;
  ~Executor();

  // Values in the order of the graph's inputs. May be called by any number of threads at the same time.
  Expected<std::vector<Tensor>> run(const std::vector<Tensor>& inputs);
  // Compiles what a run on these inputs needs.
  Expected<void> prepare(const std::vector<Tensor>& inputs);

  // Of the version that ran or was made last.
  ExecutorFacts facts() const;
  std::vector<NodeReport> report() const;  // nodes that are not compiled themselves, in order
  std::vector<StepTime> times() const;     // with NativeOptions::profile: kernels and reference nodes, in order

 private:
  struct Impl;
  explicit Executor(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// The nodes that compiled code would not take, without compiling; for models with dynamic inputs only those that no size
// makes compilable.
std::vector<NodeReport> plan_report(const ir::Graph& graph);

}  // namespace isomer::driver
