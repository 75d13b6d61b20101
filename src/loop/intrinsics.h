// The tensor intrinsics there are: one record for each register tile that a machine's instructions make worth while.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "loop/intrinsic.h"
#include "loop/target.h"

namespace isomer::loop {

using IntrinsicPtr = std::shared_ptr<const Intrinsic>;

// C[m,n] += A[m,k] * B[k,n] for m <= rows, n <= columns and any k: "fma_12x32_f32". `needs` a feature.
IntrinsicPtr outer_product(int rows, int columns, DType dtype, std::string needs);

// C[m,n] += the sum over k and 4 bytes b of A[m,k,b] * B[k,n,b], in i32: "dot_14x32_u8_i8". The bytes of B that meet in one
// element of C lie together, so the caller packs B and fills the last group of 4 with zeros.
IntrinsicPtr dot_product(int rows, int columns, DType left, DType right, std::string needs);

// C[m,n] += A[m,k] * B[k,n] for numbers that are the sum of a high and a low BF16, without the product of the two low ones:
// "split_32x32_bf16". The depth is runs j of pairs of k, so that A may be windows of an image. Operands: high A, low A, high B,
// low B and C in F32; axes m, n, j, k and the two of a pair. The code wants whole sixteens of rows, columns and pairs; other
// extents are plain loops. It may take subnormal numbers as zero.
IntrinsicPtr split_product(int rows, int columns, std::string needs);

// C[m,n] += A[m,k] * B[k,n] where B holds the upper three bytes of floats, the lowest first: "narrow_8x32_f32". For products of few
// rows, which wait for B. Operands: A, each byte of B, and C. The code reads a vector of B, so up to 64 bytes from where its
// last columns begin.
IntrinsicPtr narrow_product(int rows, int columns, std::string needs);

// What the target can use for it, or nothing.
IntrinsicPtr narrow_product_for(const Target& target);

// What the target can use for products of floats in two parts with so many columns, or nothing: for few, which one column of registers
// holds, "split_64x16_bf16".
constexpr int64_t kFewColumns = 16;
IntrinsicPtr split_product_for(const Target& target, int64_t columns = kFewColumns + 1);

// What the target can use for byte products of these types, the best first; empty: nothing.
std::vector<IntrinsicPtr> dot_products_for(const Target& target, DType left, DType right);

// The same by tile registers: "dot_32x32_u8_i8". The code wants whole sixteens of rows, columns and groups of 4; or nothing.
IntrinsicPtr tiled_dot_product_for(const Target& target, DType left, DType right);
// Whether its code wants whole registers of rows and columns.
bool uses_tile_registers(const Intrinsic& intrinsic);

// What the target can use for products of this element type, the best for large products first.
std::vector<IntrinsicPtr> intrinsics_for(const Target& target, DType dtype);

// The one of this name among all of them, of any target.
std::optional<IntrinsicPtr> find_intrinsic(std::string_view name);

}  // namespace isomer::loop
