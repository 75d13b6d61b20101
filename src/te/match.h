// Matches a rule's pattern against an interned expression, over all ways that the order of sums, products and
// commutative operators leaves open.
#pragma once

#include <array>
#include <functional>
#include <utility>
#include <vector>

#include "te/facts.h"
#include "te/rules.h"

namespace isomer::te {

using Binding = std::array<Expr, kWilds>;

bool is_literal(const Expr& e);
bool is_commutative(BinaryOp op, DType operands);

class Matcher {
 public:
  using Accept = std::function<bool(const Binding&)>;
  explicit Matcher(Facts& facts) : facts_(facts) {}

  // Offers bindings to `accept` until it takes one; whether it did.
  bool match(const Expr& pattern, const Expr& subject, const Accept& accept);

 private:
  using Pairs = std::vector<std::pair<Expr, Expr>>;
  bool go(Pairs todo, const Accept& accept);
  bool bind(const Expr& wild, const Expr& subject, Pairs todo, const Accept& accept);
  bool spread(BinaryOp op, std::vector<Expr> patterns, std::vector<Expr> parts, const Pairs& todo,
              const Accept& accept);
  Expr join(BinaryOp op, DType dtype, const std::vector<Expr>& parts);

  Facts& facts_;
  Binding binding_;
};

}  // namespace isomer::te
