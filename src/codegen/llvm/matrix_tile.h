// Tiles of a matrix product in two-dimensional registers (AMX): C[m,n] += A[m,k] * B[k,n] for numbers kept as two bf16, or for bytes. The
// registers have one shape for all of a kernel: 16 rows of 64 bytes. A kernel that uses them sets it once, before all
// else, and lets them go at its end.
#pragma once

#include <cstdint>
#include <string>

#include "loop/target.h"

namespace llvm {
class Function;
class IRBuilderBase;
class Module;
}  // namespace llvm

namespace isomer::codegen {

// Rows, columns and pairs of k that one register holds.
constexpr int64_t kMatrixSide = 16;

struct MatrixTile {
  enum class Numbers : uint8_t {
    Split,
    Bytes
  } numbers = Numbers::Split;                // bytes: u8 by i8, fours in the place of pairs
  int64_t rows = 1, columns = 1;             // registers of C: 1 or 2 each way; floats also 3 or 4 in one column
  bool fresh = false;                        // C is overwritten: what was there counts as 0
  int64_t a_row = 0, b_pair = 0, c_row = 0;  // bytes from row to row of A, from pair to pair of B, from row to row of C
  int64_t runs = 1, steps = 1;               // of the depth: runs of so many steps of 16 pairs
  int64_t a_run = 0, b_run = 0;              // bytes from run to run
  int64_t ahead = 0;                         // bytes for each step that are fetched from the last argument on

  std::string name() const;
};

bool has_matrix_tiles(const loop::Target& target, MatrixTile::Numbers numbers);

// void (high A, low A, high B, low B, C, what to fetch ahead); of bytes the high ones count
llvm::Function* matrix_tile(llvm::Module& module, const loop::Target& target, const MatrixTile& shape);

void configure_matrix_tiles(llvm::IRBuilderBase& builder, llvm::Module& module);
void release_matrix_tiles(llvm::IRBuilderBase& builder);

}  // namespace isomer::codegen
