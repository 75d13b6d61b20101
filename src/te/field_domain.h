// The field of p = 2^61 - 1 elements as the evaluator's reals: two programs that are equal as rational functions agree
// on every input, and ones that differ disagree on random inputs but for a chance of about degree / p. Integers stay
// machine integers.
//
// - A literal is its exact value: a double is m * 2^e, and 2 has an inverse. NaN and infinities are fixed symbols.
// - + - * / are the field's; a division by zero has no value.
// - A function that is no rational one (exp, sqrt, erf, pow, rem, floor, ...) is a fixed pseudo-random function of its
//   operands, one for each operation: equal operands give equal results, and nothing else is known of it, so identities
//   of the function itself (exp(a+b) = exp(a)*exp(b)) do not show.
// - Max and Min choose by one fixed pseudo-random order of the field, so they associate, commute and absorb as they
//   should. A wrong program may take the same choice by luck, half the time for each comparison: test many elements.
// - Neg is the field's. What needs an order or a special value (comparisons, isnan, a cast to an integer, arg
//   reductions) is Unsupported: the evaluator fails and says so.
// - Rounding to a type does nothing: the field stands for the real numbers.
#pragma once

#include <cmath>
#include <cstdint>
#include <optional>

#include "te/eval.h"

namespace isomer::te {

class FieldElement {
  __extension__ using Wide = unsigned __int128;

 public:
  static constexpr uint64_t kPrime = (uint64_t{1} << 61) - 1;

  constexpr FieldElement() = default;
  constexpr explicit FieldElement(uint64_t v) : value_(v % kPrime) {}
  static constexpr FieldElement of(int64_t v) {
    return v >= 0 ? FieldElement(static_cast<uint64_t>(v)) : -FieldElement(0 - static_cast<uint64_t>(v));
  }
  // Nothing for NaN and infinities.
  static std::optional<FieldElement> of(double v);

  constexpr uint64_t value() const { return value_; }  // below kPrime
  constexpr bool is_zero() const { return value_ == 0; }
  friend constexpr FieldElement operator+(FieldElement a, FieldElement b) { return FieldElement(a.value_ + b.value_); }
  friend constexpr FieldElement operator-(FieldElement a, FieldElement b) { return a + -b; }
  friend constexpr FieldElement operator-(FieldElement a) { return FieldElement(kPrime - a.value_); }
  friend constexpr FieldElement operator*(FieldElement a, FieldElement b) {
    // 2^61 is 1: the bits above it are added to those below.
    const Wide w = static_cast<Wide>(a.value_) * b.value_;
    return FieldElement((static_cast<uint64_t>(w) & kPrime) + static_cast<uint64_t>(w >> 61));
  }
  constexpr FieldElement power(uint64_t e) const {
    FieldElement result(1), base = *this;
    for (; e != 0; e >>= 1, base = base * base)
      if (e & 1) result = result * base;
    return result;
  }
  // Of a nonzero element: its power 2^61 - 3, from powers 2^k - 1.
  constexpr FieldElement inverse() const {
    const auto longer = [](FieldElement a, int by, FieldElement b) {
      for (; by > 0; --by) a = a * a;
      return a * b;
    };
    const FieldElement k1 = *this, k2 = longer(k1, 1, k1), k4 = longer(k2, 2, k2), k8 = longer(k4, 4, k4),
                       k16 = longer(k8, 8, k8), k32 = longer(k16, 16, k16);
    const FieldElement k59 = longer(longer(longer(longer(k32, 16, k16), 8, k8), 2, k2), 1, k1);
    return longer(k59, 2, k1);
  }
  constexpr bool operator==(const FieldElement&) const = default;

 private:
  uint64_t value_ = 0;
};

inline std::optional<FieldElement> FieldElement::of(double v) {
  if (!std::isfinite(v)) return std::nullopt;
  int exponent = 0;
  const double fraction = std::frexp(v, &exponent);  // |fraction| in [1/2, 1) or 0, with at most 53 bits
  const FieldElement whole = of(static_cast<int64_t>(std::ldexp(fraction, 53)));
  const FieldElement two(2);
  exponent -= 53;
  const FieldElement scale = exponent >= 0 ? two.power(static_cast<uint64_t>(exponent))
                                           : two.inverse().power(static_cast<uint64_t>(-exponent));
  return whole * scale;
}

// A fixed function of an operation and its operands that has no structure.
inline FieldElement scrambled(uint64_t operation, FieldElement a, FieldElement b = FieldElement()) {
  uint64_t state = 0x9E3779B97F4A7C15ULL * (operation + 1);
  for (const uint64_t v : {a.value(), b.value(), operation}) {
    state = (state ^ v) + 0x9E3779B97F4A7C15ULL;
    state = (state ^ (state >> 30)) * 0xBF58476D1CE4E5B9ULL;
    state = (state ^ (state >> 27)) * 0x94D049BB133111EBULL;
    state ^= state >> 31;
  }
  return FieldElement(state);
}

struct FieldDomain {
  using Real = FieldElement;
  using Int = int64_t;

  // The evaluator has no way to hear a refusal here, so NaN and the infinities, from which max and min start, are
  // symbols of their own; every other literal is exact.
  Real real(DType, double v) const {
    if (std::isinf(v)) return v < 0 ? lowest() : highest();
    return FieldElement::of(v).value_or(scrambled(kSymbolKeys, FieldElement(0)));
  }
  Int integer(int64_t v) const { return v; }
  std::optional<Int> size(const Dim& d) const { return d.constant(); }
  std::optional<int64_t> known(const Int& v) const { return v; }
  Real round(DType, const Real& v) const { return v; }
  std::optional<Real> to_real(DType from, const Int& v) const {
    return from == DType::U64 ? FieldElement(static_cast<uint64_t>(v)) : FieldElement::of(v);
  }
  std::optional<Int> to_int(DType, const Real&) const { return std::nullopt; }
  Int wrap(DType t, const Int& v) const { return wrap_to(t, v); }

  std::optional<Real> unary(UnaryOp op, const Real& x) const {
    return op == UnaryOp::Neg ? -x : scrambled(static_cast<uint64_t>(op), x);
  }
  std::optional<Int> test(UnaryOp, const Real&) const { return std::nullopt; }
  std::optional<Int> unary_int(UnaryOp op, DType t, const Int& x) const { return int_unary(op, t, x); }
  std::optional<Real> binary(BinaryOp op, const Real& a, const Real& b) const;
  static Real lowest() { return scrambled(kSymbolKeys + 1, FieldElement(0)); }
  static Real highest() { return scrambled(kSymbolKeys + 2, FieldElement(0)); }
  std::optional<Int> compare(BinaryOp, const Real&, const Real&) const { return std::nullopt; }
  std::optional<Int> binary_int(BinaryOp op, DType t, const Int& a, const Int& b) const {
    return int_binary(op, t, a, b);
  }

 private:
  static constexpr uint64_t kBinaryKeys = 100, kSymbolKeys = 200, kOrderKey = 300;
  // Where an element stands in the order of Max and Min; an injective mix, so that only equal elements are level.
  static uint64_t rank(const Real& x) {
    if (x == lowest()) return 0;
    if (x == highest()) return ~uint64_t{0};
    uint64_t v = x.value() + kOrderKey;
    v = (v ^ (v >> 30)) * 0xBF58476D1CE4E5B9ULL;
    v = (v ^ (v >> 27)) * 0x94D049BB133111EBULL;
    return v ^ (v >> 31);
  }
};

inline std::optional<FieldElement> FieldDomain::binary(BinaryOp op, const Real& a, const Real& b) const {
  switch (op) {
    case BinaryOp::Add: return a + b;
    case BinaryOp::Sub: return a - b;
    case BinaryOp::Mul: return a * b;
    case BinaryOp::Div: return b.is_zero() ? std::nullopt : std::optional(a * b.inverse());
    case BinaryOp::Min:
    case BinaryOp::Max: return (rank(a) < rank(b)) == (op == BinaryOp::Max) ? b : a;
    default: return scrambled(kBinaryKeys + static_cast<uint64_t>(op), a, b);
  }
}

}  // namespace isomer::te
