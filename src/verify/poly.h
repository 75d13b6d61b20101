// Poly: an integer polynomial over atoms, the language of every index, extent and guard in a proof. An atom is a size
// of the rule, a free output index, a bound index, or a floor quotient of two polynomials; mod(e, d) is always written
// e - d * floor(e / d). Invariant: terms sorted by monomial, no zero coefficient, so equal polynomials are equal data.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace isomer::verify {

// Thrown inside the prover, and caught by its door, when a proof is out of reach: numbers that overflow, limits.
struct GiveUp {
  std::string reason;
};

using AtomId = uint32_t;
using Monomial = std::vector<AtomId>;  // sorted; a squared atom stands twice

class Poly {
 public:
  Poly(int64_t constant = 0);  // NOLINT: literals are polynomials
  static Poly atom(AtomId id);

  const std::vector<std::pair<Monomial, int64_t>>& terms() const { return terms_; }
  bool is_zero() const { return terms_.empty(); }
  bool is_const() const { return terms_.empty() || (terms_.size() == 1 && terms_[0].first.empty()); }
  int64_t constant() const { return terms_.empty() || !terms_[0].first.empty() ? 0 : terms_[0].second; }
  int64_t coefficient(AtomId id) const;  // of the linear term
  bool mentions(AtomId id) const;        // not looking into quotients
  size_t degree() const;

  friend Poly operator+(const Poly& a, const Poly& b);
  friend Poly operator-(const Poly& a, const Poly& b);
  friend Poly operator*(const Poly& a, const Poly& b);
  friend Poly operator-(const Poly& a) { return Poly(0) - a; }
  auto operator<=>(const Poly&) const = default;
  bool operator==(const Poly&) const = default;

  void add_term(Monomial m, int64_t coefficient);

 private:
  std::vector<std::pair<Monomial, int64_t>> terms_;
};

using Guards = std::vector<Poly>;  // each p means p >= 0

enum class AtomKind : uint8_t { Size, Free, Bound, Quotient };

struct Atom {
  AtomKind kind = AtomKind::Size;
  std::string name;
  int64_t lower = 0;  // Size: the smallest value
  Poly e, d;          // Quotient: floor(e / d), with d >= 1
};

using Substitution = std::map<AtomId, Poly>;

// The atoms of one proof. Ids grow in order of making, so a run is the same from time to time.
class Atoms {
 public:
  AtomId size(const std::string& name, int64_t lower);  // one per name; the greater bound holds
  AtomId fresh(AtomKind kind, std::string name);
  const Atom& operator[](AtomId id) const { return atoms_[id]; }
  size_t count() const { return atoms_.size(); }

  // floor(e / d) with whatever divides evenly taken out; the caller knows that d >= 1.
  Poly quotient(const Poly& e, const Poly& d);

  Poly substitute(const Poly& p, const Substitution& s);  // also inside quotients
  bool touches(const Poly& p, const Substitution& s) const;
  // Every atom of p, those inside quotients and the quotients themselves included.
  void collect(const Poly& p, std::set<AtomId>& out) const;
  bool occurs(const Poly& p, AtomId id) const;  // also inside quotients
  bool sizes_only(const Poly& p) const;         // quotients of sizes count as sizes

  std::string to_string(const Poly& p) const;
  std::string to_string(AtomId id) const;

 private:
  std::vector<Atom> atoms_;
  std::map<std::string, AtomId> sizes_;
  std::map<std::pair<Poly, Poly>, AtomId> quotients_;
};

// p = d * quotient + rest, moving over what d's leading term divides; exact as polynomials.
struct Division {
  Poly quotient, rest;
};
Division divide(const Poly& p, const Poly& d);

// The greatest common divisor of the coefficients of all terms but the constant; 0 when there are none.
int64_t content(const Poly& p);

}  // namespace isomer::verify
