// How element types look to the code generator's library. Two forms: in memory (Bool is a byte, F16 and BF16 are two
// bytes) and in computation (Bool is one bit; F16 and BF16 are floats, and all floats are doubles in wide mode).
#pragma once

#include "tensor/dtype.h"

namespace llvm {
class LLVMContext;
class Type;
class Value;
class IRBuilderBase;
}  // namespace llvm

namespace isomer::codegen {

// What expressions are computed with.
class Numbers {
 public:
  Numbers(llvm::LLVMContext& context, bool wide) : context_(context), wide_(wide) {}

  llvm::Type* stored(DType type) const;
  llvm::Type* computed(DType type) const;
  bool wide() const { return wide_; }
  int computed_bytes(DType type) const;

  // Values of the stored form from and to values of the computed form; scalars or vectors alike.
  llvm::Value* load_form(llvm::IRBuilderBase& b, DType type, llvm::Value* stored) const;
  llvm::Value* store_form(llvm::IRBuilderBase& b, DType type, llvm::Value* computed) const;
  // A computed float rounded to what `type` can hold, still in computed form.
  llvm::Value* round(llvm::IRBuilderBase& b, DType type, llvm::Value* computed) const;
  // Computed value of one type as computed value of another.
  llvm::Value* cast(llvm::IRBuilderBase& b, DType from, DType to, llvm::Value* x) const;

 private:
  llvm::LLVMContext& context_;
  bool wide_;
};

// The type of `v` with its scalars replaced by `scalar`: a vector stays a vector of as many lanes.
llvm::Type* like(const llvm::Value* v, llvm::Type* scalar);

}  // namespace isomer::codegen
