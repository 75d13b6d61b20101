// Runs a BlockProgram over all points of a stage, block by block, on the threads of a pool.
#pragma once

#include <chrono>
#include <optional>

#include "base/expected.h"
#include "base/thread_pool.h"
#include "interp/block_program.h"

namespace isomer::interp {

// When a run has to end; none: never.
using Deadline = std::optional<std::chrono::steady_clock::time_point>;
Diagnostic timeout_diagnostic();

// Writes every element of `out`, which has the stage's dims and stores rounded or wrapped values of its own type. The
// bytes, and the diagnostic when there is one, are the same for any number of threads.
Expected<void> run_blocks(const BlockProgram& program, Tensor& out, ThreadPool& pool, const Deadline& deadline);

}  // namespace isomer::interp
