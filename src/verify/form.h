// The normal form of a proof: a value is a sum of terms, and a term is
//     coefficient * sum over ALL integers of the binders of [guards] * product of factors.
// A factor reads an input, applies a function that is not interpreted, or takes the largest of a set of candidates.
// Binders are unique in a proof, and a binder is seen only inside its own term (scope), factors included.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "verify/poly.h"
#include "verify/solver.h"

namespace isomer::verify {

struct Rational {
  int64_t num = 0, den = 1;  // den > 0, no common divisor
  auto operator<=>(const Rational&) const = default;
};
Rational operator+(const Rational& a, const Rational& b);
Rational operator*(const Rational& a, const Rational& b);

// A Laurent polynomial in sizes with rational coefficients: 1 / k^2 of a mean, k^2 of a count.
class Coef {
 public:
  using Powers = std::vector<std::pair<AtomId, int>>;
  Coef() = default;
  Coef(int64_t v) : Coef(Rational{v, 1}) {}  // NOLINT
  explicit Coef(const Rational& r) {
    if (r.num != 0) terms_[{}] = r;
  }
  static Coef of(const Poly& p);  // of sizes
  bool is_zero() const { return terms_.empty(); }
  bool is_one() const {
    return terms_.size() == 1 && terms_.begin()->first.empty() && terms_.begin()->second == Rational{1, 1};
  }
  bool negative() const { return !terms_.empty() && terms_.begin()->second.num < 0; }  // a choice of sign, no claim
  // The number, when no size takes part.
  std::optional<Rational> rational() const;
  // 1 / this, when this is one term of sizes that are never 0.
  std::optional<Coef> inverse(const Atoms& atoms) const;
  friend Coef operator+(const Coef& a, const Coef& b);
  friend Coef operator*(const Coef& a, const Coef& b);
  friend Coef operator-(const Coef& a) { return a * Coef(-1); }
  auto operator<=>(const Coef&) const = default;
  bool operator==(const Coef&) const = default;
  std::string to_string(const Atoms& atoms) const;

 private:
  std::map<Powers, Rational> terms_;
};

struct Term;
using Form = std::vector<Term>;  // a sum

struct Factor {
  enum class Kind : uint8_t { Read, Apply, Max } kind = Kind::Read;
  int head = 0;             // Read: a tensor, Apply: a function (Heads)
  std::vector<Poly> index;  // Read
  std::vector<Form> args;   // Apply: operands. Max: one list of candidates, each a term whose factor is wrap(value)
};

struct Term {
  Coef coef = 1;
  std::vector<AtomId> binders;
  Guards guards;
  std::vector<Factor> factors;
};

// Names of tensors and functions as numbers; both sides of a proof share them.
class Heads {
 public:
  int of(const std::string& name);
  const std::string& name(int head) const { return names_[static_cast<size_t>(head)]; }
  // Data are integers that wrap: sums and products keep their laws, the order of numbers does not.
  void set_wrapping() { wrapping_ = true; }
  bool wrapping() const { return wrapping_; }
  // Tensors whose elements are never below 0.
  void set_not_negative(int head) { not_negative_.insert(head); }
  bool not_negative(int head) const { return not_negative_.contains(head); }
  // Tensors of truth values, read as 0 and 1.
  void set_truth(int head) { truth_.insert(head), not_negative_.insert(head); }
  bool truth(int head) const { return truth_.contains(head); }

 private:
  std::vector<std::string> names_;
  std::map<std::string, int> by_name_;
  std::set<int> not_negative_, truth_;
  bool wrapping_ = false;
};

int compare(const Factor& a, const Factor& b);
int compare(const Term& a, const Term& b);
int compare(const Form& a, const Form& b);

Form number(const Coef& c);
Form add(Form a, const Form& b);
Form scale(Form a, const Coef& c);
Form guarded(Form f, const Guards& guards);  // the form where the guards hold, else 0
Factor wrap(int head, Form value);           // Apply of one operand

void substitute(Atoms& atoms, Form& f, const Substitution& s);
void substitute(Atoms& atoms, Term& t, const Substitution& s);
void substitute(Atoms& atoms, Factor& f, const Substitution& s);
void substitute(Atoms& atoms, Guards& g, const Substitution& s);
Guards joined(const Guards& a, const Guards& b);  // all of both

// New binders, in factors too, so that a term may stand beside its copy.
Term renamed(Atoms& atoms, const Term& t);

// Every atom in a term, and those of the binders of its factors.
void collect(const Atoms& atoms, const Factor& f, std::set<AtomId>& out);
void collect(const Atoms& atoms, const Term& t, std::set<AtomId>& out);
void inner_binders(const Factor& f, std::set<AtomId>& out);

std::string to_string(const Atoms& atoms, const Heads& heads, const Form& f);
std::string to_string(const Atoms& atoms, const Heads& heads, const Term& t);

}  // namespace isomer::verify
