// Elementary functions of floats as straight-line code, on scalars or vectors of float alike, so that a kernel needs no
// call and gives the same bits whether it is vectorised or not. Bounds, tested in test/unit/codegen/math_test.cc:
// exp 1.1 units of the last place, log 1, tanh 5, erf 5, and those two never above 1. NaN, infinities, zeros and subnormals as in libm.
#pragma once

namespace llvm {
class IRBuilderBase;
class Value;
}  // namespace llvm

namespace isomer::codegen {

// `avx512`: the machine has AVX-512 for vectors of all widths.
llvm::Value* exp_f32(llvm::IRBuilderBase& b, llvm::Value* x, bool avx512);
llvm::Value* log_f32(llvm::IRBuilderBase& b, llvm::Value* x);
llvm::Value* tanh_f32(llvm::IRBuilderBase& b, llvm::Value* x, bool avx512);
llvm::Value* logistic_f32(llvm::IRBuilderBase& b, llvm::Value* x, bool avx512);  // 1 / (1 + e^x)
llvm::Value* erf_f32(llvm::IRBuilderBase& b, llvm::Value* x, bool avx512);
// erf(x) + 1, which keeps its digits where erf comes near -1.
llvm::Value* erf_plus_one_f32(llvm::IRBuilderBase& b, llvm::Value* x, bool avx512);

// Sine, or cosine, of |x| <= kLargestAngle, computed in double: 0.6 units of the last place.
inline constexpr float kLargestAngle = 134217728.0f;
llvm::Value* sine_f32(llvm::IRBuilderBase& b, llvm::Value* x, bool cosine);

}  // namespace isomer::codegen
