// Index expressions as sums: a number plus atoms with coefficients, where an atom is a variable or a part that is no sum
// (a quotient, a read). What analyses of loops ask: coefficients, ranges, substitution. Index arithmetic is taken not to
// overflow, as in te/simplify.h.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "te/expr.h"

namespace isomer::loop {

struct Affine {
  struct Term {
    te::Expr atom;
    int64_t coefficient = 0;
  };
  int64_t constant = 0;
  std::vector<Term> terms;  // distinct atoms, nonzero coefficients, sorted by content

  bool is_number() const { return terms.empty(); }
  int64_t coefficient(int var) const;  // of the plain variable
  void add(const te::Expr& atom, int64_t coefficient);
};

Affine affine_of(const te::Expr& e);  // of an I64 expression
Affine add(Affine a, const Affine& b, int64_t factor = 1);
te::Expr to_expr(const Affine& a);
bool same(const Affine& a, const Affine& b);

bool uses(const te::Expr& e, int var);
void variables(const te::Expr& e, std::vector<int>& out);  // appended, each once
bool has_read(const te::Expr& e);

// Rebuilds bottom-up: `replace` may answer an expression for a node whose operands are rebuilt already, else empty.
te::Expr rebuild(const te::Expr& e, const std::function<te::Expr(const te::Expr&)>& replace);
using Substitution = std::map<int, te::Expr>;
te::Expr substitute(const te::Expr& e, const Substitution& variables);

struct Range {  // both ends included; low > high: empty
  int64_t low = 0, high = 0;
};

// Ranges of variables that are in scope, outermost first; extents may be expressions of earlier variables.
class Ranges {
 public:
  void push(int var, const te::Expr& extent);
  void push(int var, int64_t extent) { push(var, te::Expr(extent)); }
  void pop() { scope_.pop_back(); }
  bool knows(int var) const;
  const te::Expr* extent(int var) const;
  size_t size() const { return scope_.size(); }

  // A range that holds all values of the expression; wide where nothing better is seen.
  Range range(const te::Expr& e) const;
  Range range(const Affine& a) const;

 private:
  struct Entry {
    int var;
    te::Expr extent;
    Range range;
  };
  Range plain(const Affine& a) const;
  int64_t highest(Affine a, int depth) const;
  int64_t highest_by_quotients(const Affine& a, int depth) const;
  std::vector<Entry> scope_;
};

// The forms that are all >= 0 exactly when the condition holds; nothing when it is no conjunction of inequalities of
// I64 expressions without reads.
std::optional<std::vector<Affine>> inequalities(const te::Expr& condition);
te::Expr condition_of(const Affine& at_least_zero);

}  // namespace isomer::loop
