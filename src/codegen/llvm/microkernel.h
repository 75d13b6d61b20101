// Register tiles of a matrix product: C[m,n] += A[m,k] * B[k,n] with all of C's tile in registers while k runs. One
// function for each shape and stepping that a module uses; all its users call it.
#pragma once

#include <cstdint>
#include <string>

#include "loop/target.h"
#include "tensor/dtype.h"

namespace llvm {
class Function;
class Module;
}  // namespace llvm

namespace isomer::codegen {

struct TileShape {
  DType dtype = DType::F32;  // F32, F64 or an integer type
  int rows = 1;
  int lanes = 1;
  int vectors = 1;                              // of `lanes` columns
  bool masked = false;                          // the last vector has fewer live lanes
  bool fresh = false;                           // C is overwritten: what was there counts as 0
  int64_t a_row = 1, a_depth = 1, b_depth = 1;  // steps in elements; columns of B and C are contiguous

  std::string name() const;
};

// void (A, B, C, i64 step from row to row of C, i64 k, i64 live lanes of the last vector)
llvm::Function* outer_product(llvm::Module& module, const loop::Target& target, const TileShape& shape);

}  // namespace isomer::codegen
