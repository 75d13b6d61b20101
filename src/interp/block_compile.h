// Compiles a stage at known extents into a BlockProgram that reads the given tensors.
#pragma once

#include <vector>

#include "base/expected.h"
#include "interp/block_program.h"
#include "te/program.h"

namespace isomer::interp {

struct CompileOptions {
  bool round_f32 = true;  // off: a Cast to f32 keeps the double
};

// `slots`: the tensors a Read may name, null when absent. Nothing in the program outlives them or the stage.
Expected<BlockProgram> compile_stage(const te::Stage& stage, const std::vector<int64_t>& dims,
                                     const std::vector<const Tensor*>& slots, const CompileOptions& options);

}  // namespace isomer::interp
