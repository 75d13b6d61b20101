#include "codegen/llvm/byte_dot.h"

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Intrinsics.h>
#include <llvm/IR/IntrinsicsAArch64.h>
#include <llvm/IR/IntrinsicsX86.h>

namespace isomer::codegen {
namespace {

namespace id = llvm::Intrinsic;
using Builder = llvm::IRBuilderBase;
using llvm::FixedVectorType;
using llvm::Value;

Value* by_numbers(Builder& b, const ByteDot& d, Value* sum, Value* left, Value* right) {
  llvm::Type* bytes = FixedVectorType::get(b.getInt8Ty(), 4);
  llvm::Type* wide = FixedVectorType::get(b.getInt32Ty(), 4);
  Value* x = b.CreateIntCast(b.CreateBitCast(left, bytes), wide, d.left_signed);
  Value* y = b.CreateIntCast(b.CreateBitCast(right, bytes), wide, d.right_signed);
  return b.CreateAdd(sum, b.CreateAddReduce(b.CreateMul(x, y)));
}

// Bytes at even and at odd places as 16 bits, multiplied and added in pairs.
Value* by_pairs(Builder& b, const ByteDot& d, Value* sum, Value* left, Value* right) {
  auto* half = FixedVectorType::get(b.getInt16Ty(), static_cast<unsigned>(2 * d.lanes));
  const auto pairs = d.lanes == 16  ? id::x86_avx512_pmaddw_d_512
                     : d.lanes == 8 ? id::x86_avx2_pmadd_wd
                                    : id::x86_sse2_pmadd_wd;
  Value *x = b.CreateBitCast(left, half), *y = b.CreateBitCast(right, half);
  Value* eight = llvm::ConstantInt::get(half, 8);
  Value* even = b.CreateIntrinsic(
      pairs, {}, {b.CreateAnd(x, llvm::ConstantInt::get(half, 255)), b.CreateAShr(b.CreateShl(y, eight), eight)});
  Value* odd = b.CreateIntrinsic(pairs, {}, {b.CreateLShr(x, eight), b.CreateAShr(y, eight)});
  return b.CreateAdd(sum, b.CreateAdd(even, odd));
}

// Products of signed bytes fit in 16 bits; they are added in pairs, and those again.
Value* by_halves(Builder& b, Value* sum, Value* left, Value* right) {
  auto* bytes = FixedVectorType::get(b.getInt8Ty(), 16);
  auto* products = FixedVectorType::get(b.getInt16Ty(), 8);
  llvm::Type* lanes = sum->getType();
  const auto pairs = [&](int first) {
    llvm::SmallVector<int, 8> places;
    for (int i = 0; i < 8; ++i) places.push_back(first + i);
    Value* x = b.CreateShuffleVector(b.CreateBitCast(left, bytes), places);
    Value* y = b.CreateShuffleVector(b.CreateBitCast(right, bytes), places);
    Value* product = b.CreateIntrinsic(id::aarch64_neon_smull, {products}, {x, y});
    return b.CreateIntrinsic(id::aarch64_neon_saddlp, {lanes, products}, {product});
  };
  return b.CreateAdd(sum, b.CreateIntrinsic(id::aarch64_neon_addp, {lanes}, {pairs(0), pairs(8)}));
}

Value* by_fours_x86(Builder& b, const ByteDot& d, Value* sum, Value* left, Value* right) {
  const auto fours = d.lanes == 16  ? id::x86_avx512_vpdpbusd_512
                     : d.lanes == 8 ? id::x86_avx512_vpdpbusd_256
                                    : id::x86_avx512_vpdpbusd_128;
  return b.CreateIntrinsic(fours, {}, {sum, left, right});
}

Value* by_fours_aarch64(Builder& b, const ByteDot& d, Value* sum, Value* left, Value* right) {
  llvm::Type* bytes = FixedVectorType::get(b.getInt8Ty(), 16);
  llvm::Type* lanes = sum->getType();
  Value *x = b.CreateBitCast(left, bytes), *y = b.CreateBitCast(right, bytes);
  if (d.left_signed != d.right_signed) return b.CreateIntrinsic(id::aarch64_neon_usdot, {lanes, bytes}, {sum, x, y});
  const auto fours = d.left_signed ? id::aarch64_neon_sdot : id::aarch64_neon_udot;
  return b.CreateIntrinsic(fours, {lanes, bytes}, {sum, y, x});  // the second may be a lane
}

}  // namespace

Value* ByteDot::add(Builder& b, Value* sum, Value* left, Value* right) const {
  if (lanes == 1) return by_numbers(b, *this, sum, left, right);
  if (!four) return x86 ? by_pairs(b, *this, sum, left, right) : by_halves(b, sum, left, right);
  return x86 ? by_fours_x86(b, *this, sum, left, right) : by_fours_aarch64(b, *this, sum, left, right);
}

ByteDot byte_dot_of(const loop::Target& target, bool left_signed, bool right_signed, int lanes) {
  const bool x86 = target.arch == loop::Arch::X86_64;
  const bool four =
      x86 ? target.has("avx512vnni") || target.has("avxvnni") : target.has("dotprod") || target.has("i8mm");
  return {left_signed, right_signed, lanes, x86, four};
}

}  // namespace isomer::codegen
