#include "codegen/llvm/types.h"

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Intrinsics.h>

#include "base/check.h"

namespace isomer::codegen {
namespace {

// The float nearest to a double that is not exact has its last bit set and lies towards zero: rounding it once more to
// a type of at least two bits less gives what rounding the double once would give.
llvm::Value* round_to_odd(llvm::IRBuilderBase& b, llvm::Value* x) {
  llvm::Type* f32 = like(x, b.getFloatTy());
  llvm::Type* i32 = like(x, b.getInt32Ty());
  llvm::Value* near = b.CreateFPTrunc(x, f32);
  llvm::Value* back = b.CreateFPExt(near, x->getType());
  llvm::Value* above = b.CreateFCmpOGT(b.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, back),
                                       b.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, x));
  llvm::Value* inexact = b.CreateFCmpONE(back, x);
  llvm::Value* bits = b.CreateSub(b.CreateBitCast(near, i32), b.CreateZExt(above, i32));
  return b.CreateBitCast(b.CreateOr(bits, b.CreateZExt(inexact, i32)), f32);
}

llvm::Value* to_float(llvm::IRBuilderBase& b, llvm::Value* x) {
  return x->getType()->getScalarType()->isDoubleTy() ? round_to_odd(b, x) : x;
}

llvm::Value* bfloat_bits(llvm::IRBuilderBase& b, llvm::Value* x) {
  llvm::Type* i32 = like(x, b.getInt32Ty());
  llvm::Value* bits = b.CreateBitCast(x, i32);
  llvm::Value* lsb = b.CreateAnd(b.CreateLShr(bits, 16), llvm::ConstantInt::get(i32, 1));
  llvm::Value* rounded = b.CreateAdd(bits, b.CreateAdd(lsb, llvm::ConstantInt::get(i32, 0x7fff)));
  llvm::Value* quiet = b.CreateOr(bits, llvm::ConstantInt::get(i32, 1 << 22));
  llvm::Value* chosen = b.CreateSelect(b.CreateFCmpUNO(x, x), quiet, rounded);
  return b.CreateTrunc(b.CreateLShr(chosen, 16), like(x, b.getInt16Ty()));
}

}  // namespace

llvm::Type* like(const llvm::Value* v, llvm::Type* scalar) {
  const auto* vector = llvm::dyn_cast<llvm::VectorType>(v->getType());
  return vector ? llvm::VectorType::get(scalar, vector->getElementCount()) : scalar;
}

llvm::Type* Numbers::stored(DType type) const {
  switch (type) {
    case DType::F64: return llvm::Type::getDoubleTy(context_);
    case DType::F32: return llvm::Type::getFloatTy(context_);
    case DType::F16: return llvm::Type::getHalfTy(context_);
    default: return llvm::Type::getIntNTy(context_, static_cast<unsigned>(8 * size_of(type)));
  }
}

llvm::Type* Numbers::computed(DType type) const {
  if (type == DType::Bool) return llvm::Type::getInt1Ty(context_);
  if (!is_float(type)) return stored(type);
  return wide_ || type == DType::F64 ? llvm::Type::getDoubleTy(context_) : llvm::Type::getFloatTy(context_);
}

int Numbers::computed_bytes(DType type) const {
  if (!is_float(type)) return static_cast<int>(size_of(type));
  return wide_ || type == DType::F64 ? 8 : 4;
}

llvm::Value* Numbers::load_form(llvm::IRBuilderBase& b, DType type, llvm::Value* v) const {
  if (type == DType::Bool) return b.CreateICmpNE(v, llvm::Constant::getNullValue(v->getType()));
  if (!is_float(type)) return v;
  if (type == DType::BF16) {
    llvm::Value* bits = b.CreateShl(b.CreateZExt(v, like(v, b.getInt32Ty())), 16);
    v = b.CreateBitCast(bits, like(v, b.getFloatTy()));
  }
  llvm::Type* to = like(v, computed(type));
  return v->getType() == to ? v : b.CreateFPExt(v, to);
}

llvm::Value* Numbers::store_form(llvm::IRBuilderBase& b, DType type, llvm::Value* v) const {
  if (type == DType::Bool) return b.CreateZExt(v, like(v, b.getInt8Ty()));
  if (type == DType::BF16) return bfloat_bits(b, to_float(b, v));
  if (type == DType::F16) return b.CreateFPTrunc(to_float(b, v), like(v, stored(type)));
  llvm::Type* to = like(v, stored(type));
  return v->getType() == to ? v : b.CreateFPTrunc(v, to);
}

llvm::Value* Numbers::round(llvm::IRBuilderBase& b, DType type, llvm::Value* v) const {
  if (like(v, stored(type)) == v->getType()) return v;
  return load_form(b, type, store_form(b, type, v));
}

namespace {

// What fptosi.sat and fptoui.sat give for vectors of small integers, which LLVM would take apart into lanes: what is not a
// number becomes 0.
llvm::Value* saturated(llvm::IRBuilderBase& b, DType to, llvm::Value* x) {
  const bool negative = is_signed_int(to);
  const auto bits = static_cast<int>(8 * size_of(to)) - (negative ? 1 : 0);
  const double most = static_cast<double>((int64_t{1} << bits) - 1), least = negative ? -most - 1 : 0;
  llvm::Value* low = llvm::ConstantFP::get(x->getType(), least);
  llvm::Value* high = llvm::ConstantFP::get(x->getType(), most);
  llvm::Value* number = b.CreateSelect(b.CreateFCmpOGT(x, low), x, low);
  number = b.CreateSelect(b.CreateFCmpOLT(number, high), number, high);
  if (negative) number = b.CreateSelect(b.CreateFCmpUNO(x, x), llvm::Constant::getNullValue(x->getType()), number);
  return b.CreateTrunc(b.CreateFPToSI(number, like(x, b.getInt32Ty())),
                       like(x, b.getIntNTy(static_cast<unsigned>(8 * size_of(to)))));
}

}  // namespace

llvm::Value* Numbers::cast(llvm::IRBuilderBase& b, DType from, DType to, llvm::Value* x) const {
  if (from == to) return x;
  llvm::Type* type = like(x, computed(to));
  if (is_float(from) && is_float(to)) {
    if (x->getType() == type) return round(b, to, x);
    if (type->getScalarType()->isDoubleTy()) return b.CreateFPExt(x, type);
    if (to == DType::F32) return b.CreateFPTrunc(x, type);
    return load_form(b, to, store_form(b, to, x));
  }
  if (is_float(from)) {
    if (to == DType::Bool) return b.CreateFCmpUNE(x, llvm::Constant::getNullValue(x->getType()));
    if (x->getType()->isVectorTy() && size_of(to) <= 2) return saturated(b, to, x);
    const auto id = is_signed_int(to) ? llvm::Intrinsic::fptosi_sat : llvm::Intrinsic::fptoui_sat;
    return b.CreateIntrinsic(id, {type, x->getType()}, {x});
  }
  const bool is_signed = is_signed_int(from);
  if (is_float(to)) {
    // Wide integers become doubles first: a float in between would round twice.
    const bool narrow = size_of(to) == 2 && size_of(from) >= 4;
    llvm::Type* through = narrow ? like(x, b.getDoubleTy()) : type;
    llvm::Value* real = is_signed ? b.CreateSIToFP(x, through) : b.CreateUIToFP(x, through);
    return size_of(to) == 2 ? load_form(b, to, store_form(b, to, real)) : round(b, to, real);
  }
  if (to == DType::Bool) return b.CreateICmpNE(x, llvm::Constant::getNullValue(x->getType()));
  return b.CreateIntCast(x, type, is_signed);
}

}  // namespace isomer::codegen
