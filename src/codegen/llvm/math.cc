#include "codegen/llvm/math.h"

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Intrinsics.h>
#include <llvm/IR/IntrinsicsX86.h>

#include <span>

#include "codegen/llvm/types.h"

// Polynomials are minimax fits of our own, in the form each comment gives; the errors there are those of the fit in
// exact arithmetic, relative to the function.
namespace isomer::codegen {
namespace {

// (e^r - 1 - r) / r^2 for |r| <= log(2)/2: 2^-28.
constexpr float kExp[] = {0.4999999403953552f, 0.1666652113199234f, 0.04166838899254799f, 0.00836874544620514f,
                          0.001381453825160861f};
// (log(1 + f) - f + f^2/2) / f^3 for sqrt(1/2) <= 1 + f <= sqrt(2): 2^-30.
constexpr float kLog[] = {0.3333331346511841f,   -0.25000008940696716f, 0.2000211924314499f,
                          -0.16667994856834412f, 0.14219549298286438f,  -0.12405594438314438f,
                          0.11888190358877182f,  -0.11675628274679184f, 0.06746552139520645f};
// (tanh(x)/x - 1) / x^2 in x^2 for |x| <= 0.625: 2^-32.
constexpr float kTanh[] = {-0.3333333134651184f, 0.13333210349082947f,   -0.05394720286130905f,
                           0.021702965721488f,   -0.008182669058442116f, 0.0021475329995155334f};
// erf(x)/x - 1 in x^2 for |x| <= 1: 2^-29.
constexpr float kErfSmall[] = {0.12837916612625122f,   -0.3761262595653534f, 0.1128358542919159f,
                               -0.026853810995817184f, 0.00518832728266716f, -0.000801019137725234f,
                               7.85385345807299e-05f};
// -log(1 - erf(x)) for 1 <= x <= 4: 2^-35 of erf.
constexpr float kErfLarge[] = {-0.00018847087631002069f, 1.1295803785324097f,    0.633216381072998f,
                               0.10842213034629822f,     -0.025210360065102577f, 0.0042052920907735825f,
                               -0.00044147411244921386f, 2.1697736883652397e-05f};

struct Float {
  llvm::IRBuilderBase& b;
  llvm::Type* type;
  bool avx512;  // instructions for vectors of all widths

  unsigned lanes() const {
    const auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(type);
    return vector ? vector->getNumElements() : 1;
  }
  // Whether the machine's own operations take the value, perhaps as a part of their narrowest vector.
  bool fits() const { return avx512 && lanes() <= 16 && (lanes() & (lanes() - 1)) == 0; }

  llvm::Value* number(float v) const { return llvm::ConstantFP::get(type, v); }
  llvm::Value* bits(uint32_t v) const { return llvm::ConstantInt::get(ints(), v); }
  llvm::Type* ints() const {
    const auto* vector = llvm::dyn_cast<llvm::VectorType>(type);
    if (!vector) return b.getInt32Ty();
    return llvm::VectorType::get(b.getInt32Ty(), vector->getElementCount());
  }
  llvm::Value* fma(llvm::Value* x, llvm::Value* y, llvm::Value* z) const {
    return b.CreateIntrinsic(llvm::Intrinsic::fma, {type}, {x, y, z});
  }
  llvm::Value* polynomial(llvm::Value* x, std::span<const float> c) const {
    llvm::Value* r = number(c.back());
    for (size_t i = c.size() - 1; i-- > 0;) r = fma(r, x, number(c[i]));
    return r;
  }
  llvm::Value* at_most(llvm::Value* x, float v) const {  // NaN stays
    return b.CreateSelect(b.CreateFCmpOGT(x, number(v)), number(v), x);
  }
  llvm::Value* at_least(llvm::Value* x, float v) const {
    return b.CreateSelect(b.CreateFCmpOLT(x, number(v)), number(v), x);
  }
  llvm::Value* power_of_two(llvm::Value* n) const {
    return b.CreateBitCast(b.CreateShl(b.CreateAdd(n, bits(127)), 23), type);
  }

  // A value as a vector of at least four, and back.
  llvm::Value* wide(llvm::Value* x) const {
    if (lanes() >= 4) return x;
    if (lanes() == 1) return b.CreateVectorSplat(4, x);
    return b.CreateShuffleVector(x, {0, 1, 0, 1});
  }
  llvm::Value* narrow(llvm::Value* x) const {
    if (lanes() >= 4) return x;
    if (lanes() == 1) return b.CreateExtractElement(x, uint64_t{0});
    return b.CreateShuffleVector(x, {0, 1});
  }
  llvm::Value* all() const { return llvm::Constant::getAllOnesValue(lanes() == 16 ? b.getInt16Ty() : b.getInt8Ty()); }
  // 1 / x to 14 bits.
  llvm::Value* estimate(llvm::Value* x) const {
    const llvm::Intrinsic::ID id = lanes() == 16  ? llvm::Intrinsic::x86_avx512_rcp14_ps_512
                                   : lanes() == 8 ? llvm::Intrinsic::x86_avx512_rcp14_ps_256
                                                  : llvm::Intrinsic::x86_avx512_rcp14_ps_128;
    llvm::Value* in = wide(x);
    return narrow(b.CreateIntrinsic(id, {}, {in, llvm::Constant::getNullValue(in->getType()), all()}));
  }
  // x * 2^n for an n that is an integer.
  llvm::Value* scaled(llvm::Value* x, llvm::Value* n) const {
    llvm::Value *in = wide(x), *by = wide(n);
    llvm::Value* zero = llvm::Constant::getNullValue(in->getType());
    if (lanes() == 16)
      return b.CreateIntrinsic(llvm::Intrinsic::x86_avx512_mask_scalef_ps_512, {},
                               {in, by, zero, all(), b.getInt32(4)});
    const llvm::Intrinsic::ID id =
        lanes() == 8 ? llvm::Intrinsic::x86_avx512_mask_scalef_ps_256 : llvm::Intrinsic::x86_avx512_mask_scalef_ps_128;
    return narrow(b.CreateIntrinsic(id, {}, {in, by, zero, all()}));
  }
  // 1 / x for x of a common size. A division takes as long as all that comes before it; an estimate that one step of
  // Newton's makes better is as exact.
  llvm::Value* reciprocal(llvm::Value* x) const {
    if (!fits()) return b.CreateFDiv(number(1.0f), x);
    llvm::Value* r = estimate(x);
    return fma(fma(b.CreateFNeg(x), r, number(1.0f)), r, r);
  }
  llvm::Value* magnitude(llvm::Value* x) const { return b.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, x); }
  llvm::Value* with_sign(llvm::Value* x, llvm::Value* sign) const {
    return b.CreateBinaryIntrinsic(llvm::Intrinsic::copysign, x, sign);
  }

  // e^x for -104 <= x <= 89, and NaN. `normal`: the result is known to be a normal number.
  llvm::Value* exp(llvm::Value* x, bool normal) const {
    // Adding 3 * 2^22 leaves the integer nearest to x / log(2) in the low bits.
    llvm::Value* shifted = fma(x, number(1.44269504f), number(12582912.0f));
    llvm::Value* whole = b.CreateFSub(shifted, number(12582912.0f));
    llvm::Value* r = fma(whole, number(-0.693145751953125f), x);
    r = fma(whole, number(-1.42860682e-6f), r);
    llvm::Value* p = fma(fma(polynomial(r, kExp), r, number(1.0f)), r, number(1.0f));
    if (fits()) return scaled(p, whole);
    llvm::Value* n = b.CreateSub(b.CreateBitCast(shifted, ints()), bits(0x4b400000));
    if (normal) return b.CreateFMul(p, power_of_two(n));
    // In two steps, as neither a power for the largest nor one for the smallest results is a normal number.
    llvm::Value* half = b.CreateAShr(n, 1);
    return b.CreateFMul(b.CreateFMul(p, power_of_two(half)), power_of_two(b.CreateSub(n, half)));
  }
};

}  // namespace

llvm::Value* exp_f32(llvm::IRBuilderBase& b, llvm::Value* x, bool avx512) {
  const Float f{b, x->getType(), avx512};
  // What vanishes (a masked score) must not be computed: a product below the normal numbers costs a hundred others.
  llvm::Value* vanishes = b.CreateFCmpOLT(x, f.number(-104.0f));
  llvm::Value* y = f.exp(b.CreateSelect(vanishes, f.number(0.0f), f.at_most(x, 89.0f)), false);
  return b.CreateSelect(vanishes, f.number(0.0f), y);
}

llvm::Value* log_f32(llvm::IRBuilderBase& b, llvm::Value* x) {
  const Float f{b, x->getType(), false};
  llvm::Value* tiny = b.CreateFCmpOLT(x, f.number(0x1p-126f));
  llvm::Value* scaled = b.CreateSelect(tiny, b.CreateFMul(x, f.number(0x1p23f)), x);
  // x = 2^e * (1 + r) with 1 + r between sqrt(1/2) and sqrt(2).
  llvm::Value* bits = b.CreateBitCast(scaled, f.ints());
  llvm::Value* exponent = b.CreateAShr(b.CreateSub(bits, f.bits(0x3f3504f3)), 23);
  llvm::Value* mantissa = b.CreateBitCast(b.CreateSub(bits, b.CreateShl(exponent, 23)), x->getType());
  llvm::Value* r = b.CreateFSub(mantissa, f.number(1.0f));
  llvm::Value* e = b.CreateSIToFP(exponent, x->getType());
  e = b.CreateFSub(e, b.CreateSelect(tiny, f.number(23.0f), f.number(0.0f)));
  llvm::Value* square = b.CreateFMul(r, r);
  llvm::Value* y = b.CreateFMul(b.CreateFMul(square, r), f.polynomial(r, kLog));
  y = f.fma(e, f.number(-2.12194440e-4f), y);
  y = f.fma(square, f.number(-0.5f), y);
  y = b.CreateFAdd(r, y);
  y = f.fma(e, f.number(0.693359375f), y);
  llvm::Value* zero = f.number(0.0f);
  llvm::Value* infinity = llvm::ConstantFP::getInfinity(x->getType());
  y = b.CreateSelect(b.CreateFCmpOEQ(x, infinity), infinity, y);
  y = b.CreateSelect(b.CreateFCmpOEQ(x, zero), llvm::ConstantFP::getInfinity(x->getType(), true), y);
  return b.CreateSelect(b.CreateFCmpULT(x, zero), llvm::ConstantFP::getNaN(x->getType()), y);
}

llvm::Value* logistic_f32(llvm::IRBuilderBase& b, llvm::Value* x, bool avx512) {
  const Float f{b, x->getType(), avx512};
  // Beyond 87 the result is no normal number: it is 0, whatever is computed there.
  llvm::Value* tiny = b.CreateFCmpOGT(x, f.number(87.0f));
  llvm::Value* y = b.CreateFAdd(f.exp(f.at_least(x, -87.0f), true), f.number(1.0f));
  return b.CreateSelect(tiny, f.number(0.0f), f.reciprocal(y));
}

llvm::Value* tanh_f32(llvm::IRBuilderBase& b, llvm::Value* x, bool avx512) {
  const Float f{b, x->getType(), avx512};
  llvm::Value* a = f.magnitude(x);
  llvm::Value* square = b.CreateFMul(x, x);
  llvm::Value* small = f.fma(b.CreateFMul(square, x), f.polynomial(square, kTanh), x);
  llvm::Value* e = f.exp(b.CreateFMul(f.at_most(a, 10.0f), f.number(2.0f)), true);
  llvm::Value* quotient = b.CreateFDiv(f.number(-2.0f), b.CreateFAdd(e, f.number(1.0f)));
  llvm::Value* large = b.CreateFAdd(quotient, f.number(1.0f));
  return f.with_sign(b.CreateSelect(b.CreateFCmpOLT(a, f.number(0.625f)), small, large), x);
}

llvm::Value* erf_f32(llvm::IRBuilderBase& b, llvm::Value* x, bool avx512) {
  const Float f{b, x->getType(), avx512};
  llvm::Value* a = f.magnitude(x);
  llvm::Value* square = b.CreateFMul(x, x);
  llvm::Value* small = f.fma(x, f.polynomial(square, kErfSmall), x);
  llvm::Value* t = f.at_most(a, 4.0f);
  llvm::Value* e = f.exp(b.CreateFNeg(f.polynomial(t, kErfLarge)), true);
  llvm::Value* large = f.with_sign(b.CreateFSub(f.number(1.0f), e), x);
  return b.CreateSelect(b.CreateFCmpOLT(a, f.number(1.0f)), small, large);
}

llvm::Value* erf_plus_one_f32(llvm::IRBuilderBase& b, llvm::Value* x, bool avx512) {
  const Float f{b, x->getType(), avx512};
  llvm::Value* a = f.magnitude(x);
  llvm::Value* square = b.CreateFMul(x, x);
  llvm::Value* small = b.CreateFAdd(f.fma(x, f.polynomial(square, kErfSmall), x), f.number(1.0f));
  llvm::Value* t = f.at_most(a, 4.0f);
  llvm::Value* e = f.exp(b.CreateFNeg(f.polynomial(t, kErfLarge)), true);
  e = b.CreateSelect(b.CreateFCmpOGE(a, f.number(4.0f)), f.number(0.0f), e);
  llvm::Value* large = b.CreateSelect(b.CreateFCmpOLT(x, f.number(0.0f)), e, b.CreateFSub(f.number(2.0f), e));
  return b.CreateSelect(b.CreateFCmpOLT(a, f.number(1.0f)), small, large);
}

llvm::Value* sine_f32(llvm::IRBuilderBase& b, llvm::Value* x, bool cosine) {
  llvm::Type *type = x->getType(), *wide = b.getDoubleTy(), *whole = b.getInt64Ty();
  if (const auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(type)) {
    wide = llvm::FixedVectorType::get(wide, vector->getNumElements());
    whole = llvm::FixedVectorType::get(whole, vector->getNumElements());
  }
  const auto number = [&](double v) { return llvm::ConstantFP::get(wide, v); };
  const auto fma = [&](llvm::Value* p, llvm::Value* q, llvm::Value* r) {
    return b.CreateIntrinsic(llvm::Intrinsic::fma, {wide}, {p, q, r});
  };
  // Adding 3 * 2^51 leaves the number of quarter turns in the low bits; pi / 2 in two parts leaves what is beyond them.
  constexpr double kShift = 6755399441055744.0;
  llvm::Value* d = b.CreateFPExt(x, wide);
  llvm::Value* shifted = fma(d, number(0.63661977236758134308), number(kShift));
  llvm::Value* turns = b.CreateFSub(shifted, number(kShift));
  llvm::Value* r = fma(turns, number(-1.57079632679489661923), d);
  r = fma(turns, number(-6.12323399573676603587e-17), r);
  llvm::Value* quarter = b.CreateBitCast(shifted, whole);
  if (cosine) quarter = b.CreateAdd(quarter, llvm::ConstantInt::get(whole, 1));
  llvm::Value* z = b.CreateFMul(r, r);
  llvm::Value* sine = number(1.0 / 362880);
  for (const double c : {-1.0 / 5040, 1.0 / 120, -1.0 / 6, 1.0}) sine = fma(sine, z, number(c));
  sine = b.CreateFMul(sine, r);
  llvm::Value* cos = number(-1.0 / 3628800);
  for (const double c : {1.0 / 40320, -1.0 / 720, 1.0 / 24, -0.5, 1.0}) cos = fma(cos, z, number(c));
  const auto bit = [&](uint64_t n) {
    return b.CreateICmpNE(b.CreateAnd(quarter, llvm::ConstantInt::get(whole, n)), llvm::ConstantInt::get(whole, 0));
  };
  llvm::Value* result = b.CreateSelect(bit(1), cos, sine);
  return b.CreateFPTrunc(b.CreateSelect(bit(2), b.CreateFNeg(result), result), type);
}

}  // namespace isomer::codegen
