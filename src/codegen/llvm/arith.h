// The scalar operations of te as instructions, on scalars or vectors alike (te/expr.h says what they mean).
#pragma once

#include "codegen/llvm/types.h"
#include "loop/target.h"
#include "te/expr.h"

namespace llvm {
class Function;
class Module;
class Constant;
}  // namespace llvm

namespace isomer::codegen {

class Arith {
 public:
  Arith(llvm::IRBuilderBase& builder, const Numbers& numbers, llvm::Module& module, const loop::Target& target)
      : b_(builder), numbers_(numbers), module_(module), target_(target) {}

  // `type` is the type of the operands.
  llvm::Value* unary(te::UnaryOp op, DType type, llvm::Value* x);
  // Not for integer divisions.
  llvm::Value* binary(te::BinaryOp op, DType type, llvm::Value* x, llvm::Value* y);
  // Div, Rem, FloorDiv, FloorMod of integers by a divisor that is not zero. `nonnegative`: both are known to be.
  llvm::Value* divide(te::BinaryOp op, DType type, llvm::Value* x, llvm::Value* y, bool nonnegative);

  llvm::Value* combine(te::Combiner c, DType type, llvm::Value* x, llvm::Value* y);
  llvm::Constant* identity(te::Combiner c, DType type);
  llvm::Value* reduce(te::Combiner c, DType type, llvm::Value* vector);  // over all lanes, as a balanced tree

  static bool is_division(te::BinaryOp op) { return op >= te::BinaryOp::Div && op <= te::BinaryOp::FloorMod; }

 private:
  llvm::Value* real_unary(te::UnaryOp op, llvm::Value* x);
  llvm::Value* real_binary(te::BinaryOp op, llvm::Value* x, llvm::Value* y);
  llvm::Value* real_compare(te::BinaryOp op, llvm::Value* x, llvm::Value* y);
  llvm::Value* int_binary(te::BinaryOp op, DType type, llvm::Value* x, llvm::Value* y);
  llvm::Value* bool_binary(te::BinaryOp op, llvm::Value* x, llvm::Value* y);
  llvm::Value* int_compare(te::BinaryOp op, DType type, llvm::Value* x, llvm::Value* y);
  llvm::Value* real_quotient(llvm::Value* x, llvm::Value* y);
  llvm::Value* extremum(bool max, llvm::Value* x, llvm::Value* y);
  llvm::Value* real_power(llvm::Value* x, llvm::Value* y);
  llvm::Value* int_power(DType type, llvm::Value* x, llvm::Value* y);
  // Calls a function of libm (the name for doubles), lane by lane.
  llvm::Value* library(const char* name, llvm::Value* x, llvm::Value* y = nullptr);
  llvm::Function* sine_function(te::UnaryOp op, llvm::Type* type);

  llvm::IRBuilderBase& b_;
  const Numbers& numbers_;
  llvm::Module& module_;
  const loop::Target& target_;
};

}  // namespace isomer::codegen
