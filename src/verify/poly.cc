#include "verify/poly.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "base/arithmetic.h"

namespace isomer::verify {
namespace {

int64_t plus(int64_t a, int64_t b) {
  if (const auto r = checked_add(a, b)) return *r;
  throw GiveUp{"a coefficient overflows"};
}
int64_t times(int64_t a, int64_t b) {
  if (const auto r = checked_mul(a, b)) return *r;
  throw GiveUp{"a coefficient overflows"};
}

Monomial product(const Monomial& a, const Monomial& b) {
  Monomial m;
  m.reserve(a.size() + b.size());
  std::merge(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(m));
  return m;
}

// m / by, when by divides m.
std::optional<Monomial> ratio(const Monomial& m, const Monomial& by) {
  if (!std::includes(m.begin(), m.end(), by.begin(), by.end())) return std::nullopt;
  Monomial r;
  std::set_difference(m.begin(), m.end(), by.begin(), by.end(), std::back_inserter(r));
  return r;
}

}  // namespace

Poly::Poly(int64_t constant) {
  if (constant != 0) terms_.push_back({{}, constant});
}

Poly Poly::atom(AtomId id) {
  Poly p;
  p.terms_.push_back({{id}, 1});
  return p;
}

void Poly::add_term(Monomial m, int64_t coefficient) {
  if (coefficient == 0) return;
  const auto it =
      std::lower_bound(terms_.begin(), terms_.end(), m, [](const auto& t, const Monomial& x) { return t.first < x; });
  if (it == terms_.end() || it->first != m) {
    terms_.insert(it, {std::move(m), coefficient});
    return;
  }
  it->second = plus(it->second, coefficient);
  if (it->second == 0) terms_.erase(it);
}

int64_t Poly::coefficient(AtomId id) const {
  const Monomial m{id};
  const auto it =
      std::lower_bound(terms_.begin(), terms_.end(), m, [](const auto& t, const Monomial& x) { return t.first < x; });
  return it != terms_.end() && it->first == m ? it->second : 0;
}

bool Poly::mentions(AtomId id) const {
  for (const auto& [m, c] : terms_)
    if (std::binary_search(m.begin(), m.end(), id)) return true;
  return false;
}

size_t Poly::degree() const {
  size_t d = 0;
  for (const auto& [m, c] : terms_) d = std::max(d, m.size());
  return d;
}

Poly operator+(const Poly& a, const Poly& b) {
  Poly r = a.terms_.size() >= b.terms_.size() ? a : b;
  for (const auto& [m, c] : (a.terms_.size() >= b.terms_.size() ? b : a).terms_) r.add_term(m, c);
  return r;
}

Poly operator-(const Poly& a, const Poly& b) {
  Poly r = a;
  for (const auto& [m, c] : b.terms_) r.add_term(m, times(c, -1));
  return r;
}

Poly operator*(const Poly& a, const Poly& b) {
  Poly r;
  if (a.terms_.size() * b.terms_.size() > 4096) throw GiveUp{"a polynomial grows too large"};
  for (const auto& [m, c] : a.terms_)
    for (const auto& [n, d] : b.terms_) r.add_term(product(m, n), times(c, d));
  return r;
}

Division divide(const Poly& p, const Poly& d) {
  Division out{0, p};
  if (d.is_zero()) return out;
  // The leading term: of highest degree, the last of those.
  const auto lead = *std::max_element(d.terms().begin(), d.terms().end(), [](const auto& a, const auto& b) {
    return a.first.size() != b.first.size() ? a.first.size() < b.first.size() : a.first < b.first;
  });
  for (int round = 0; round < 64; ++round) {
    std::optional<Poly> step;
    for (const auto& [m, c] : out.rest.terms()) {
      const auto rest = ratio(m, lead.first);
      if (!rest) continue;
      const int64_t k = isomer::floor_div(c, lead.second);
      // Of a quotient by several terms only even steps are taken: others may go on for ever.
      if (k == 0 || (d.terms().size() > 1 && c % lead.second != 0)) continue;
      step.emplace();
      step->add_term(*rest, k);
      break;
    }
    if (!step) break;
    if (d.terms().size() > 1 && (out.rest - *step * d).terms().size() > out.rest.terms().size()) break;
    out.quotient = out.quotient + *step;
    out.rest = out.rest - *step * d;
  }
  return out;
}

int64_t content(const Poly& p) {
  int64_t g = 0;
  for (const auto& [m, c] : p.terms())
    if (!m.empty()) g = std::gcd(g, c);
  return g;
}

AtomId Atoms::size(const std::string& name, int64_t lower) {
  const auto it = sizes_.find(name);
  if (it != sizes_.end()) {
    atoms_[it->second].lower = std::max(atoms_[it->second].lower, lower);
    return it->second;
  }
  atoms_.push_back({AtomKind::Size, name, lower, {}, {}});
  const auto id = static_cast<AtomId>(atoms_.size() - 1);
  sizes_.emplace(name, id);
  return id;
}

AtomId Atoms::fresh(AtomKind kind, std::string name) {
  if (atoms_.size() > 200000) throw GiveUp{"the proof uses too many variables"};
  const auto id = static_cast<AtomId>(atoms_.size());
  atoms_.push_back({kind, fmt::format("{}.{}", name, id), 0, {}, {}});
  return id;
}

Poly Atoms::quotient(const Poly& e, const Poly& d) {
  if (d == Poly(1)) return e;
  const Division parts = divide(e, d);
  if (parts.rest.is_zero()) return parts.quotient;
  if (parts.rest.is_const() && d.is_const())
    return parts.quotient + Poly(isomer::floor_div(parts.rest.constant(), d.constant()));
  const auto key = std::pair(parts.rest, d);
  auto it = quotients_.find(key);
  if (it == quotients_.end()) {
    const auto id = static_cast<AtomId>(atoms_.size());
    atoms_.push_back({AtomKind::Quotient, fmt::format("q.{}", id), 0, parts.rest, d});
    it = quotients_.emplace(key, id).first;
  }
  return parts.quotient + Poly::atom(it->second);
}

bool Atoms::touches(const Poly& p, const Substitution& s) const {
  for (const auto& [m, c] : p.terms())
    for (AtomId a : m)
      if (s.contains(a) ||
          (atoms_[a].kind == AtomKind::Quotient && (touches(atoms_[a].e, s) || touches(atoms_[a].d, s))))
        return true;
  return false;
}

Poly Atoms::substitute(const Poly& p, const Substitution& s) {
  if (!touches(p, s)) return p;
  Poly r;
  for (const auto& [m, c] : p.terms()) {
    Poly t(c);
    for (AtomId a : m) {
      if (const auto it = s.find(a); it != s.end()) {
        t = t * it->second;
      } else if (atoms_[a].kind == AtomKind::Quotient) {
        const Poly e = atoms_[a].e, d = atoms_[a].d;
        const Poly e2 = substitute(e, s), d2 = substitute(d, s);
        t = t * (e2 == e && d2 == d ? Poly::atom(a) : quotient(e2, d2));
      } else {
        t = t * Poly::atom(a);
      }
    }
    r = r + t;
  }
  return r;
}

void Atoms::collect(const Poly& p, std::set<AtomId>& out) const {
  for (const auto& [m, c] : p.terms())
    for (AtomId a : m)
      if (out.insert(a).second && atoms_[a].kind == AtomKind::Quotient) {
        collect(atoms_[a].e, out);
        collect(atoms_[a].d, out);
      }
}

bool Atoms::occurs(const Poly& p, AtomId id) const {
  for (const auto& [m, c] : p.terms())
    for (AtomId a : m)
      if (a == id || (atoms_[a].kind == AtomKind::Quotient && (occurs(atoms_[a].e, id) || occurs(atoms_[a].d, id))))
        return true;
  return false;
}

bool Atoms::sizes_only(const Poly& p) const {
  for (const auto& [m, c] : p.terms())
    for (AtomId a : m) {
      if (atoms_[a].kind == AtomKind::Quotient && sizes_only(atoms_[a].e) && sizes_only(atoms_[a].d)) continue;
      if (atoms_[a].kind != AtomKind::Size) return false;
    }
  return true;
}

std::string Atoms::to_string(AtomId id) const {
  const Atom& a = atoms_[id];
  if (a.kind != AtomKind::Quotient) return a.name;
  return fmt::format("floordiv({},{})", to_string(a.e), to_string(a.d));
}

std::string Atoms::to_string(const Poly& p) const {
  if (p.is_zero()) return "0";
  std::string out;
  for (auto it = p.terms().rbegin(); it != p.terms().rend(); ++it) {
    const auto& [m, c] = *it;
    if (c < 0 || !out.empty()) out += c < 0 ? "-" : "+";
    const int64_t magnitude = c < 0 ? -c : c;
    if (magnitude != 1 || m.empty()) out += std::to_string(magnitude);
    bool first = magnitude == 1;
    for (AtomId a : m) {
      if (!first) out += "*";
      first = false;
      out += to_string(a);
    }
  }
  return out;
}

}  // namespace isomer::verify
