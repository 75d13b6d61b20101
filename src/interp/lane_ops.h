// The instructions' work on n neighbouring lanes. Same meaning as te/scalar.h, which the rare ones call.
#pragma once

#include <cstdint>

#include "te/expr.h"
#include "tensor/tensor.h"

namespace isomer::interp::lanes {

void unary(te::UnaryOp op, double* dst, const double* a, int n);
void test(te::UnaryOp op, int64_t* dst, const double* a, int n);
void binary(te::BinaryOp op, double* dst, const double* a, const double* b, int n);
void compare(te::BinaryOp op, int64_t* dst, const double* a, const double* b, int n);
void unary_int(te::UnaryOp op, DType type, int64_t* dst, const int64_t* a, int n);
// False when an active lane divides by zero. `mask` may be null: all lanes are active.
bool binary_int(te::BinaryOp op, DType type, int64_t* dst, const int64_t* a, const int64_t* b, const int64_t* mask,
                int n);
void wrap(DType type, int64_t* dst, const int64_t* a, int n);
void round(DType type, double* dst, const double* a, int n);
void to_int(DType type, int64_t* dst, const double* a, int n);
void to_real(DType from, double* dst, const int64_t* a, int n);
template <class T>
void select(T* dst, const int64_t* c, const T* a, const T* b, int n) {
  for (int i = 0; i < n; ++i) dst[i] = c[i] ? a[i] : b[i];
}

// dst := combine(dst, a), where the mask is nonzero when there is one.
void combine(te::Combiner c, double* dst, const double* a, const int64_t* mask, int n);
void combine_int(te::Combiner c, DType type, int64_t* dst, const int64_t* a, const int64_t* mask, int n);

// n elements of the tensor from `first` on, `step` apart.
void load(const Tensor& t, int64_t first, int64_t step, double* dst, int n);
void load_int(const Tensor& t, int64_t first, int64_t step, int64_t* dst, int n);
// Stores n lanes, rounded or wrapped to the type of `bytes`.
void store(DType type, std::byte* bytes, int64_t first, int64_t step, const double* a, int n);
void store_int(DType type, std::byte* bytes, int64_t first, int64_t step, const int64_t* a, int n);

}  // namespace isomer::interp::lanes
