// Sums of four products of bytes in each 32-bit lane, by the best instruction that a machine has for them.
#pragma once

#include "loop/target.h"

namespace llvm {
class IRBuilderBase;
class Value;
}  // namespace llvm

namespace isomer::codegen {

struct ByteDot {
  bool left_signed = false, right_signed = true;
  int lanes = 1;      // of 32 bits; 1: a scalar
  bool x86 = false;   // else AArch64
  bool four = false;  // one instruction sums four products

  // `sum`, and in each lane the four products of its bytes in `left` and `right`, which have sum's type. Without an
  // instruction for four, and with x86's, the kinds are those that loop/intrinsics.h offers there.
  llvm::Value* add(llvm::IRBuilderBase& b, llvm::Value* sum, llvm::Value* left, llvm::Value* right) const;
};

ByteDot byte_dot_of(const loop::Target& target, bool left_signed, bool right_signed, int lanes);

}  // namespace isomer::codegen
