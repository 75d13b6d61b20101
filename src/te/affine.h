// Integer sums in one normal form: a number plus products of factors with coefficients, in content order. Exact in
// the ring of its type, so it holds under wrapping.
#pragma once

#include <optional>
#include <vector>

#include "te/facts.h"

namespace isomer::te {

struct Affine {
  struct Term {
    Expr factors;  // interned, no literal factor
    int64_t coefficient;
  };
  DType dtype;
  std::vector<Term> terms;  // distinct factors, no zero coefficients
  int64_t constant = 0;
};

Affine affine(Facts& facts, const Expr& e);   // of an interned integer expression
Expr from_affine(Facts& facts, Affine form);  // interned
Affine difference(Facts& facts, const Expr& a, const Expr& b);

// The terms of a sum as expressions, each `factors` or `factors*coefficient`, and the number last when it is not zero.
std::vector<Expr> terms_of(Facts& facts, const Expr& sum);
Expr sum_of(Facts& facts, DType dtype, const std::vector<Expr>& terms);
std::vector<Expr> factors_of(Facts& facts, const Expr& product);  // a literal factor last
Expr product_of(Facts& facts, DType dtype, std::vector<Expr> factors);

// The least value of an index form that can be shown, by the ranges of axes, numbers or symbolic sizes alike.
std::optional<Int128> least(const Facts& facts, const Affine& form);

}  // namespace isomer::te
