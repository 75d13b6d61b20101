// Evaluates programs on tensors of machine numbers, fast enough to run whole networks: each stage is compiled to a
// BlockProgram and run on all cores. Bit for bit what te::Evaluator<DoubleDomain> says.
#pragma once

#include <string>
#include <vector>

#include "base/expected.h"
#include "base/thread_pool.h"
#include "interp/block_run.h"
#include "interp/interp.h"
#include "te/program.h"
#include "tensor/tensor.h"

namespace isomer::interp {

// What the evaluations of one run share: threads and limits.
class Session {
 public:
  explicit Session(const Options& options);
  const Options& options() const { return options_; }
  ThreadPool& pool() { return pool_; }
  const Deadline& deadline() const { return deadline_; }
  bool late() const;

  // Bytes of the values that are alive: those held by the caller and the stages of the running program.
  int64_t live_bytes = 0;
  // A diagnostic when a value of this many bytes more would be too large, by itself or with all others.
  Expected<void> admit(const std::string& what, int64_t bytes) const;

 private:
  const Options options_;
  ThreadPool pool_;
  Deadline deadline_;
  int64_t max_live_bytes_;
};

// Inputs by slot; null for one that is absent. Every extent is a number. Inputs are read by their own element type: an
// F64 tensor may stand for any float input.
Expected<std::vector<Tensor>> evaluate(const te::Program& program, const std::vector<const Tensor*>& inputs,
                                       Session& session);
Expected<std::vector<Tensor>> evaluate(const te::Program& program, const std::vector<const Tensor*>& inputs,
                                       const Options& options);

}  // namespace isomer::interp
