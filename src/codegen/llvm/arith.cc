#include "codegen/llvm/arith.h"

#include <llvm/Analysis/VectorUtils.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Intrinsics.h>
#include <llvm/IR/Module.h>

#include <cmath>

#include "base/check.h"

namespace isomer::codegen {

using te::BinaryOp;
using te::Combiner;
using te::UnaryOp;

namespace {

llvm::Value* zero(llvm::Value* x) { return llvm::Constant::getNullValue(x->getType()); }
llvm::Value* number(llvm::Value* x, int64_t v) {
  return llvm::ConstantInt::get(x->getType(), static_cast<uint64_t>(v), true);
}

}  // namespace

llvm::Value* Arith::unary(UnaryOp op, DType type, llvm::Value* x) {
  if (is_float(type)) return real_unary(op, x);
  switch (op) {
    case UnaryOp::Neg: return type == DType::Bool ? x : b_.CreateNeg(x);
    case UnaryOp::Abs:
      return is_signed_int(type) ? b_.CreateBinaryIntrinsic(llvm::Intrinsic::abs, x, b_.getFalse()) : x;
    case UnaryOp::Not: return b_.CreateNot(x);
    default: return x;  // Floor, Ceil, Round, Trunc
  }
}

llvm::Value* Arith::binary(BinaryOp op, DType type, llvm::Value* x, llvm::Value* y) {
  if (is_float(type)) return te::is_compare(op) ? real_compare(op, x, y) : real_binary(op, x, y);
  if (te::is_compare(op)) return int_compare(op, type, x, y);
  return type == DType::Bool ? bool_binary(op, x, y) : int_binary(op, type, x, y);
}

llvm::Value* Arith::real_compare(BinaryOp op, llvm::Value* x, llvm::Value* y) {
  switch (op) {
    case BinaryOp::Eq: return b_.CreateFCmpOEQ(x, y);
    case BinaryOp::Ne: return b_.CreateFCmpUNE(x, y);
    case BinaryOp::Lt: return b_.CreateFCmpOLT(x, y);
    default: return b_.CreateFCmpOLE(x, y);
  }
}

llvm::Value* Arith::int_compare(BinaryOp op, DType type, llvm::Value* x, llvm::Value* y) {
  const bool is_signed = is_signed_int(type);
  switch (op) {
    case BinaryOp::Eq: return b_.CreateICmpEQ(x, y);
    case BinaryOp::Ne: return b_.CreateICmpNE(x, y);
    case BinaryOp::Lt: return is_signed ? b_.CreateICmpSLT(x, y) : b_.CreateICmpULT(x, y);
    default: return is_signed ? b_.CreateICmpSLE(x, y) : b_.CreateICmpULE(x, y);
  }
}

llvm::Value* Arith::real_binary(BinaryOp op, llvm::Value* x, llvm::Value* y) {
  switch (op) {
    case BinaryOp::Add: return b_.CreateFAdd(x, y);
    case BinaryOp::Sub: return b_.CreateFSub(x, y);
    case BinaryOp::Mul: return b_.CreateFMul(x, y);
    case BinaryOp::Div: return real_quotient(x, y);
    case BinaryOp::Rem: return library("fmod", x, y);
    case BinaryOp::FloorDiv: return b_.CreateUnaryIntrinsic(llvm::Intrinsic::floor, b_.CreateFDiv(x, y));
    case BinaryOp::FloorMod: {
      llvm::Value* r = library("fmod", x, y);
      llvm::Value* differ = b_.CreateXor(b_.CreateFCmpOLT(r, zero(r)), b_.CreateFCmpOLT(y, zero(y)));
      return b_.CreateSelect(b_.CreateAnd(b_.CreateFCmpUNE(r, zero(r)), differ), b_.CreateFAdd(r, y), r);
    }
    case BinaryOp::Pow: return real_power(x, y);
    case BinaryOp::Min: return extremum(false, x, y);
    case BinaryOp::Max: return extremum(true, x, y);
    default: check_failed("operation fits the number kind", std::string(te::name(op)));
  }
}

// A vector by one number: the quotient by its reciprocal, corrected by what that leaves over, which rounds as the division does and
// takes a fraction of its time. A number so small or large that reciprocals or what is left over leave the range of floats is
// brought near 1 together with the vector; the compiler takes what belongs to the number alone out of the loop.
llvm::Value* Arith::real_quotient(llvm::Value* x, llvm::Value* y) {
  llvm::Value* by = y->getType()->isVectorTy() ? llvm::getSplatValue(y) : nullptr;
  if (!by || !by->getType()->isFloatTy()) return b_.CreateFDiv(x, y);
  const auto number = [&](float v) { return llvm::ConstantFP::get(by->getType(), v); };
  const auto spread = [&](llvm::Value* v) {
    return b_.CreateVectorSplat(llvm::cast<llvm::VectorType>(x->getType())->getElementCount(), v);
  };
  if (const auto* known = llvm::dyn_cast<llvm::ConstantFP>(by)) {
    const float f = std::fabs(known->getValueAPF().convertToFloat());
    int exponent = 0;
    const bool power = std::frexp(f, &exponent) == 0.5f;  // has an exact reciprocal
    if (power || !(f > 0x1p-60f && f < 0x1p60f)) return b_.CreateFDiv(x, y);
  } else {
    llvm::Value* size = b_.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, by);
    llvm::Value* large = b_.CreateSelect(b_.CreateFCmpOGT(size, number(0x1p60f)), number(0x1p-60f), number(1));
    llvm::Value* near = b_.CreateSelect(b_.CreateFCmpOLT(size, number(0x1p-60f)), number(0x1p60f), large);
    by = b_.CreateFMul(by, near);
    x = b_.CreateFMul(x, spread(near));
  }
  const auto fma = [&](llvm::Value* p, llvm::Value* q, llvm::Value* r) {
    return b_.CreateIntrinsic(llvm::Intrinsic::fma, {x->getType()}, {p, q, r});
  };
  llvm::Value* reciprocal = spread(b_.CreateFDiv(number(1), by));
  llvm::Value* q = b_.CreateFMul(x, reciprocal);
  llvm::Value* left = fma(b_.CreateFNeg(q), spread(by), x);
  llvm::Value* corrected = fma(left, reciprocal, q);
  // Nothing is left over of infinities, of zeros, and of what has no reciprocal.
  return b_.CreateSelect(b_.CreateFCmpUEQ(corrected, zero(corrected)), q, corrected);
}

// Which of two zeros comes out is left open, as te leaves it.
llvm::Value* Arith::extremum(bool max, llvm::Value* x, llvm::Value* y) {
  if (llvm::isa<llvm::Constant>(x)) std::swap(x, y);
  if (const auto* c = llvm::dyn_cast<llvm::Constant>(y); c && target_.arch == loop::Arch::X86_64) {
    const llvm::Constant* scalar = c->getType()->isVectorTy() ? c->getSplatValue() : c;
    const auto* real = llvm::dyn_cast_or_null<llvm::ConstantFP>(scalar);
    // One instruction: x86 gives its second operand when either is NaN.
    if (real && !real->isNaN()) return b_.CreateSelect(max ? b_.CreateFCmpOGT(y, x) : b_.CreateFCmpOLT(y, x), y, x);
  }
  llvm::Value* r = b_.CreateBinaryIntrinsic(max ? llvm::Intrinsic::maximum : llvm::Intrinsic::minimum, x, y);
  if (auto* call = llvm::dyn_cast<llvm::Instruction>(r)) call->setHasNoSignedZeros(true);
  return r;
}

llvm::Value* Arith::real_power(llvm::Value* x, llvm::Value* y) {
  if (const auto* c = llvm::dyn_cast<llvm::Constant>(y)) {
    const llvm::Constant* scalar = c->getType()->isVectorTy() ? c->getSplatValue() : c;
    const auto* real = llvm::dyn_cast_or_null<llvm::ConstantFP>(scalar);
    if (real && real->isExactlyValue(2.0)) return b_.CreateFMul(x, x);
    if (real && real->isExactlyValue(1.0)) return x;
    if (real && real->isExactlyValue(3.0)) return b_.CreateFMul(b_.CreateFMul(x, x), x);
    if (real && real->isExactlyValue(-1.0)) return b_.CreateFDiv(llvm::ConstantFP::get(x->getType(), 1.0), x);
  }
  return library("pow", x, y);
}

llvm::Value* Arith::bool_binary(BinaryOp op, llvm::Value* x, llvm::Value* y) {
  switch (op) {
    case BinaryOp::Add:
    case BinaryOp::Max:
    case BinaryOp::Or: return b_.CreateOr(x, y);
    case BinaryOp::Sub:
    case BinaryOp::Xor: return b_.CreateXor(x, y);
    case BinaryOp::Mul:
    case BinaryOp::Min:
    case BinaryOp::And: return b_.CreateAnd(x, y);
    case BinaryOp::Shl: return x;
    case BinaryOp::Shr: return b_.CreateAnd(x, b_.CreateNot(y));
    case BinaryOp::Pow: return b_.CreateOr(x, b_.CreateNot(y));
    default: check_failed("operation fits the number kind", std::string(te::name(op)));
  }
}

llvm::Value* Arith::int_binary(BinaryOp op, DType type, llvm::Value* x, llvm::Value* y) {
  const bool is_signed = is_signed_int(type);
  auto shifted = [&](llvm::Value* v) {
    llvm::Value* inside = b_.CreateICmpULT(y, number(y, static_cast<int64_t>(8 * size_of(type))));
    return b_.CreateSelect(inside, v, zero(v));
  };
  switch (op) {
    case BinaryOp::Add: return b_.CreateAdd(x, y);
    case BinaryOp::Sub: return b_.CreateSub(x, y);
    case BinaryOp::Mul: return b_.CreateMul(x, y);
    case BinaryOp::Pow: return int_power(type, x, y);
    case BinaryOp::Min:
      return b_.CreateBinaryIntrinsic(is_signed ? llvm::Intrinsic::smin : llvm::Intrinsic::umin, x, y);
    case BinaryOp::Max:
      return b_.CreateBinaryIntrinsic(is_signed ? llvm::Intrinsic::smax : llvm::Intrinsic::umax, x, y);
    case BinaryOp::And: return b_.CreateAnd(x, y);
    case BinaryOp::Or: return b_.CreateOr(x, y);
    case BinaryOp::Xor: return b_.CreateXor(x, y);
    case BinaryOp::Shl: return shifted(b_.CreateShl(x, y));
    case BinaryOp::Shr: return shifted(is_signed ? b_.CreateAShr(x, y) : b_.CreateLShr(x, y));
    default: check_failed("operation fits the number kind", std::string(te::name(op)));
  }
}

llvm::Value* Arith::divide(BinaryOp op, DType type, llvm::Value* x, llvm::Value* y, bool nonnegative) {
  const bool quotient = op == BinaryOp::Div || op == BinaryOp::FloorDiv;
  if (type == DType::Bool) return quotient ? x : zero(x);
  if (nonnegative || is_unsigned_int(type)) return quotient ? b_.CreateUDiv(x, y) : b_.CreateURem(x, y);
  // The lowest number has no quotient by -1 that fits: that divisor goes its own way.
  llvm::Value* minus = b_.CreateICmpEQ(y, number(y, -1));
  llvm::Value* safe = b_.CreateSelect(minus, number(y, 1), y);
  llvm::Value* q = b_.CreateSDiv(x, safe);
  llvm::Value* r = b_.CreateSub(x, b_.CreateMul(q, safe));
  if (op == BinaryOp::Div) return b_.CreateSelect(minus, b_.CreateNeg(x), q);
  if (op == BinaryOp::Rem) return b_.CreateSelect(minus, zero(r), r);
  llvm::Value* differ = b_.CreateICmpSLT(b_.CreateXor(r, safe), zero(r));
  llvm::Value* down = b_.CreateAnd(b_.CreateICmpNE(r, zero(r)), differ);
  if (op == BinaryOp::FloorDiv)
    return b_.CreateSelect(minus, b_.CreateNeg(x), b_.CreateSub(q, b_.CreateZExt(down, q->getType())));
  return b_.CreateSelect(minus, zero(r), b_.CreateAdd(r, b_.CreateSelect(down, safe, zero(r))));
}

llvm::Value* Arith::combine(Combiner c, DType type, llvm::Value* x, llvm::Value* y) {
  switch (c) {
    case Combiner::Sum: return binary(BinaryOp::Add, type, x, y);
    case Combiner::Product: return binary(BinaryOp::Mul, type, x, y);
    case Combiner::Max: return binary(BinaryOp::Max, type, x, y);
    default: return binary(BinaryOp::Min, type, x, y);
  }
}

llvm::Constant* Arith::identity(Combiner c, DType type) {
  llvm::Type* t = numbers_.computed(type);
  if (is_float(type)) {
    if (c == Combiner::Sum) return llvm::ConstantFP::get(t, 0.0);
    if (c == Combiner::Product) return llvm::ConstantFP::get(t, 1.0);
    return llvm::ConstantFP::getInfinity(t, c == Combiner::Max);
  }
  if (c == Combiner::Sum) return llvm::ConstantInt::get(t, 0);
  if (c == Combiner::Product) return llvm::ConstantInt::get(t, 1);
  const int64_t v = c == Combiner::Max ? lowest_int(type) : highest_int(type);
  return llvm::ConstantInt::get(t, static_cast<uint64_t>(v), true);
}

llvm::Value* Arith::reduce(Combiner c, DType type, llvm::Value* vector) {
  auto lanes = llvm::cast<llvm::FixedVectorType>(vector->getType())->getNumElements();
  for (; lanes > 1; lanes /= 2) {
    llvm::SmallVector<int, 64> low, high;
    for (unsigned i = 0; i < lanes / 2; ++i) low.push_back(static_cast<int>(i));
    for (unsigned i = 0; i < lanes / 2; ++i) high.push_back(static_cast<int>(i + lanes / 2));
    vector = combine(c, type, b_.CreateShuffleVector(vector, low), b_.CreateShuffleVector(vector, high));
  }
  return b_.CreateExtractElement(vector, uint64_t{0});
}

}  // namespace isomer::codegen
