// Intrinsic: a piece of a loop nest that a target computes in one go (a register tile of a matrix product, a dot product
// of bytes), declared by its expression. Adding one for a new instruction is one record; how a code generator emits it is
// chosen by `emit`. Invariant: a Tile of the intrinsic means exactly what `meaning` says, whatever `emit` does.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "te/program.h"

namespace isomer::loop {

// The family of code that emits it; parameters are read off the extents and element types of `meaning`.
enum class Emit : uint8_t {
  OuterProduct,   // C[m,n] += A[m,k] * B[k,n]: vectors along n, broadcasts of A, C in registers over the whole of k
  DotProduct,     // C[m,n] += sum of 4 bytes: vectors of int32 along n, 4 consecutive k in one lane (vnni, sdot)
  NarrowProduct,  // C[m,n] += A[m,k] * B[k,n] with the upper three bytes of each float of B
  SplitProduct    // C[m,n] += the three larger of the four products of numbers kept as two bf16, pairs of k (AMX)
};

// What the code of an intrinsic wants of an operand's place.
struct OperandShape {
  std::string name;
  bool unit_stride_last = true;  // the last axis it has is contiguous
};

struct Intrinsic {
  std::string name;  // "fma_12x32_f32", unique
  Emit emit = Emit::OuterProduct;
  te::Program
      meaning;  // one stage; its axes, then those of its reduction, are the axes of a Tile, in order. Inputs and
                // then the output are the operands. It updates: the output's old value is added.
  std::vector<bool> tail;  // per axis: whether a Tile may have a smaller extent there
  std::string needs;       // a feature of Target that it stands on: "avx512f", "neon", ...
};

}  // namespace isomer::loop
