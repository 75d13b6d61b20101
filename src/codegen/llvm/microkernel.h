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

// What one step of k does to an element of C.
enum class Product : uint8_t { MultiplyAdd, Narrow, DotU8I8, DotI8I8, DotU8U8 };

struct TileShape {
  Product product = Product::MultiplyAdd;
  DType dtype = DType::F32;  // of C: F32, F64 or an integer type; A and B have it too, or are bytes in groups of 4;
                             // Narrow: B has the upper three bytes of each float, steps of B are in bytes
  int rows = 1;
  int lanes = 1;
  int vectors = 1;                              // of `lanes` columns
  bool masked = false;                          // the last vector has fewer live lanes
  bool fresh = false;                           // C is overwritten: what was there counts as 0
  int64_t a_row = 1, a_depth = 1, b_depth = 1;  // steps in elements of A and B; columns of B and C are contiguous
  int64_t ahead = 0;                            // bytes for each step of k that are fetched from the last argument on

  std::string name() const;
};

// void (A, B, C, i64 step from row to row of C, i64 k, i64 live lanes of the last vector, what to fetch ahead)
llvm::Function* outer_product(llvm::Module& module, const loop::Target& target, const TileShape& shape);

}  // namespace isomer::codegen
