// Elementary functions of floats as straight-line code, on scalars or vectors of float alike, so that a kernel needs no
// call and gives the same bits whether it is vectorised or not. Bounds, tested in test/unit/codegen/math_test.cc:
// exp 1.1 units of the last place, log 1, tanh 1.5, erf 1.3. NaN, infinities, zeros and subnormals as in libm.
#pragma once

namespace llvm {
class IRBuilderBase;
class Value;
}  // namespace llvm

namespace isomer::codegen {

llvm::Value* exp_f32(llvm::IRBuilderBase& b, llvm::Value* x);
llvm::Value* log_f32(llvm::IRBuilderBase& b, llvm::Value* x);
llvm::Value* tanh_f32(llvm::IRBuilderBase& b, llvm::Value* x);
// 1 / (1 + e^x). `estimate`: the machine has AVX-512's estimate of a reciprocal for vectors of all widths, which one step
// of Newton's makes as exact as a division that takes as long as all the rest.
llvm::Value* logistic_f32(llvm::IRBuilderBase& b, llvm::Value* x, bool estimate);
llvm::Value* erf_f32(llvm::IRBuilderBase& b, llvm::Value* x);

}  // namespace isomer::codegen
