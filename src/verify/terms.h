// TermTable: numbers as polynomials over the elements of inputs, with rational coefficients, each kept once: two
// computations that give one id are equal for all contents of the inputs and every meaning of the functions that are not
// interpreted. The converse does not hold; only equality is ever concluded. What symbolic execution at known sizes
// computes with (bounded.h).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "te/field_domain.h"
#include "verify/form.h"

namespace isomer::verify {

using TermId = uint32_t;

class TermTable {
 public:
  explicit TermTable(size_t budget) : budget_(budget) {}

  TermId input(int64_t tensor, int64_t element);
  TermId literal(double v);
  TermId number(const Rational& r);
  // Nothing when the numbers or the budget overflow, or when an infinity would take part in a sum or product.
  std::optional<TermId> add(TermId a, TermId b);
  std::optional<TermId> multiply(TermId a, TermId b);
  std::optional<TermId> negate(TermId a) { return multiply(a, number({-1, 1})); }
  std::optional<TermId> inverse(TermId a);
  std::optional<TermId> largest(TermId a, TermId b);
  std::optional<TermId> smallest(TermId a, TermId b);
  std::optional<TermId> exponential(TermId a);
  TermId apply(int64_t function, TermId a, TermId b);
  // The number that it is for all inputs.
  std::optional<Rational> constant(TermId a) const;

 private:
  using Powers = std::vector<std::pair<uint32_t, int32_t>>;  // atoms in order; exponentials may have negative powers
  using Sum = std::vector<std::pair<Powers, Rational>>;      // in order, no zero
  struct Atom {
    enum class Kind : uint8_t { Input, Literal, Lowest, Highest, Inverse, Largest, Exponential, Function } kind;
    std::vector<int64_t> what;
    auto operator<=>(const Atom&) const = default;
  };
  TermId intern(Sum s);
  TermId atom(Atom a);
  TermId of_atom(uint32_t atom, int32_t power = 1);
  std::optional<uint32_t> single_atom(TermId a) const;  // the atom that it is
  bool is(TermId a, Atom::Kind kind) const;
  bool infinite(TermId a) const { return is(a, Atom::Kind::Lowest) || is(a, Atom::Kind::Highest); }
  bool spend(size_t terms);

  std::vector<Sum> sums_;
  std::map<Sum, TermId> ids_;
  std::vector<Atom> atoms_;
  std::map<Atom, uint32_t> atom_ids_;
  size_t budget_, spent_ = 0;
};

// The evaluator's domain over a table; integers stay machine integers.
struct TermDomain : te::FieldDomain {
  struct Real {
    TermId id = 0;
  };
  TermTable* terms = nullptr;

  Real real(DType, double v) const { return {terms->literal(v)}; }
  Real round(DType, const Real& v) const { return v; }
  std::optional<Real> to_real(DType, const Int& v) const { return Real{terms->number({v, 1})}; }
  std::optional<Int> to_int(DType, const Real&) const { return std::nullopt; }
  std::optional<Int> test(te::UnaryOp, const Real&) const { return std::nullopt; }
  std::optional<Int> compare(te::BinaryOp, const Real&, const Real&) const { return std::nullopt; }
  std::optional<Real> unary(te::UnaryOp op, const Real& x) const;
  std::optional<Real> binary(te::BinaryOp op, const Real& a, const Real& b) const;
};

}  // namespace isomer::verify
