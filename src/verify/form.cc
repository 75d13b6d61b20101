#include "verify/form.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace isomer::verify {
namespace {

__extension__ using Wide = __int128;

Rational reduced(Wide num, Wide den) {
  Wide a = num < 0 ? -num : num, b = den;
  while (b != 0) std::swap(a %= b, b);
  if (a == 0) a = 1;
  num /= a;
  den /= a;
  constexpr Wide kLimit = Wide{1} << 62;
  if (num > kLimit || num < -kLimit || den > kLimit) throw GiveUp{"a coefficient overflows"};
  return {static_cast<int64_t>(num), static_cast<int64_t>(den)};
}

}  // namespace

Rational operator+(const Rational& a, const Rational& b) {
  return reduced(Wide{a.num} * b.den + Wide{b.num} * a.den, Wide{a.den} * b.den);
}
Rational operator*(const Rational& a, const Rational& b) { return reduced(Wide{a.num} * b.num, Wide{a.den} * b.den); }

Coef Coef::of(const Poly& p) {
  Coef c;
  for (const auto& [m, k] : p.terms()) {
    Powers powers;
    for (AtomId a : m) {
      if (!powers.empty() && powers.back().first == a)
        ++powers.back().second;
      else
        powers.emplace_back(a, 1);
    }
    c.terms_[powers] = Rational{k, 1};
  }
  return c;
}

std::optional<Rational> Coef::rational() const {
  if (terms_.empty()) return Rational{0, 1};
  if (terms_.size() != 1 || !terms_.begin()->first.empty()) return std::nullopt;
  return terms_.begin()->second;
}

std::optional<Coef> Coef::inverse(const Atoms& atoms) const {
  if (terms_.size() != 1) return std::nullopt;
  const auto& [powers, value] = *terms_.begin();
  Powers inverted = powers;
  for (auto& [a, power] : inverted) {
    if (atoms[a].kind != AtomKind::Size || atoms[a].lower < 1) return std::nullopt;
    power = -power;
  }
  Coef c;
  c.terms_[inverted] = value.num < 0 ? Rational{-value.den, -value.num} : Rational{value.den, value.num};
  return c;
}

Coef operator+(const Coef& a, const Coef& b) {
  Coef r = a;
  for (const auto& [powers, v] : b.terms_) {
    Rational& sum = r.terms_[powers];
    sum = sum + v;
    if (sum.num == 0) r.terms_.erase(powers);
  }
  return r;
}

Coef operator*(const Coef& a, const Coef& b) {
  Coef r;
  for (const auto& [p, v] : a.terms_)
    for (const auto& [q, w] : b.terms_) {
      std::map<AtomId, int> powers(p.begin(), p.end());
      for (const auto& [atom, power] : q)
        if ((powers[atom] += power) == 0) powers.erase(atom);
      const Coef::Powers key(powers.begin(), powers.end());
      Rational& sum = r.terms_[key];
      sum = sum + v * w;
      if (sum.num == 0) r.terms_.erase(key);
    }
  return r;
}

std::string Coef::to_string(const Atoms& atoms) const {
  std::string out;
  for (const auto& [powers, v] : terms_) {
    if (!out.empty()) out += " + ";
    out += v.den == 1 ? std::to_string(v.num) : fmt::format("{}/{}", v.num, v.den);
    for (const auto& [a, power] : powers)
      out += power == 1 ? fmt::format("*{}", atoms.to_string(a)) : fmt::format("*{}^{}", atoms.to_string(a), power);
  }
  return out.empty() ? "0" : terms_.size() == 1 ? out : "(" + out + ")";
}

int Heads::of(const std::string& name) {
  const auto [it, added] = by_name_.emplace(name, static_cast<int>(names_.size()));
  if (added) names_.push_back(name);
  return it->second;
}

namespace {

template <class T>
int three(const T& a, const T& b) {
  return a < b ? -1 : b < a ? 1 : 0;
}

}  // namespace

int compare(const Factor& a, const Factor& b) {
  if (const int c = three(a.kind, b.kind)) return c;
  if (const int c = three(a.head, b.head)) return c;
  if (const int c = three(a.index, b.index)) return c;
  if (const int c = three(a.args.size(), b.args.size())) return c;
  for (size_t i = 0; i < a.args.size(); ++i)
    if (const int c = compare(a.args[i], b.args[i])) return c;
  return 0;
}

int compare(const Term& a, const Term& b) {
  if (const int c = three(a.coef, b.coef)) return c;
  if (const int c = three(a.binders, b.binders)) return c;
  if (const int c = three(a.guards, b.guards)) return c;
  if (const int c = three(a.factors.size(), b.factors.size())) return c;
  for (size_t i = 0; i < a.factors.size(); ++i)
    if (const int c = compare(a.factors[i], b.factors[i])) return c;
  return 0;
}

int compare(const Form& a, const Form& b) {
  if (const int c = three(a.size(), b.size())) return c;
  for (size_t i = 0; i < a.size(); ++i)
    if (const int c = compare(a[i], b[i])) return c;
  return 0;
}

Form number(const Coef& c) {
  if (c.is_zero()) return {};
  return {Term{c, {}, {}, {}}};
}

Form add(Form a, const Form& b) {
  if (a.size() + b.size() > 4000) throw GiveUp{"the normal form grows too large"};
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

Form scale(Form a, const Coef& c) {
  if (c.is_zero()) return {};
  for (Term& t : a) t.coef = t.coef * c;
  return a;
}

Form guarded(Form f, const Guards& guards) {
  for (Term& t : f) t.guards.insert(t.guards.end(), guards.begin(), guards.end());
  return f;
}

Factor wrap(int head, Form value) {
  Factor f{Factor::Kind::Apply, head, {}, {}};
  f.args.push_back(std::move(value));
  return f;
}

void substitute(Atoms& atoms, Guards& g, const Substitution& s) {
  for (Poly& p : g) p = atoms.substitute(p, s);
}
void substitute(Atoms& atoms, Factor& f, const Substitution& s) {
  for (Poly& p : f.index) p = atoms.substitute(p, s);
  for (Form& a : f.args) substitute(atoms, a, s);
}
void substitute(Atoms& atoms, Term& t, const Substitution& s) {
  substitute(atoms, t.guards, s);
  for (Factor& f : t.factors) substitute(atoms, f, s);
}
void substitute(Atoms& atoms, Form& f, const Substitution& s) {
  for (Term& t : f) substitute(atoms, t, s);
}

Term renamed(Atoms& atoms, const Term& t) {
  Term r = t;
  for (Factor& f : r.factors)
    for (Form& arg : f.args)
      for (Term& inner : arg) inner = renamed(atoms, inner);
  if (r.binders.empty()) return r;
  Substitution s;
  for (AtomId& b : r.binders) {
    const AtomId fresh = atoms.fresh(AtomKind::Bound, "k");
    s.emplace(b, Poly::atom(fresh));
    b = fresh;
  }
  substitute(atoms, r, s);
  return r;
}

void collect(const Atoms& atoms, const Factor& f, std::set<AtomId>& out) {
  for (const Poly& p : f.index) atoms.collect(p, out);
  for (const Form& a : f.args)
    for (const Term& t : a) collect(atoms, t, out);
}

void collect(const Atoms& atoms, const Term& t, std::set<AtomId>& out) {
  for (const Poly& p : t.guards) atoms.collect(p, out);
  for (const Factor& f : t.factors) collect(atoms, f, out);
}

void inner_binders(const Factor& f, std::set<AtomId>& out) {
  for (const Form& a : f.args)
    for (const Term& t : a) {
      out.insert(t.binders.begin(), t.binders.end());
      for (const Factor& g : t.factors) inner_binders(g, out);
    }
}

namespace {

std::string factor_text(const Atoms& atoms, const Heads& heads, const Factor& f) {
  std::string out;
  switch (f.kind) {
    case Factor::Kind::Read:
      out = heads.name(f.head);
      if (f.index.empty()) return out;
      out += "[";
      for (size_t i = 0; i < f.index.size(); ++i) out += (i ? ", " : "") + atoms.to_string(f.index[i]);
      return out + "]";
    case Factor::Kind::Apply:
      if (!heads.name(f.head).empty()) out = heads.name(f.head) + "(";
      for (size_t i = 0; i < f.args.size(); ++i) out += (i ? ", " : "") + to_string(atoms, heads, f.args[i]);
      return heads.name(f.head).empty() ? out : out + ")";
    case Factor::Kind::Max: {
      out = "max{";
      for (size_t i = 0; i < f.args[0].size(); ++i) out += (i ? " ; " : "") + to_string(atoms, heads, f.args[0][i]);
      return out + "}";
    }
  }
  return out;
}

}  // namespace

std::string to_string(const Atoms& atoms, const Heads& heads, const Term& t) {
  std::string out;
  if (!t.coef.is_one() || (t.factors.empty() && t.binders.empty())) out = t.coef.to_string(atoms);
  const auto put = [&](const std::string& s) { out += (out.empty() ? "" : " ") + s; };
  if (!t.binders.empty()) {
    std::string names;
    for (AtomId b : t.binders) names += (names.empty() ? "" : ",") + atoms.to_string(b);
    put("sum(" + names + ")");
  }
  for (const Poly& g : t.guards) put("[" + atoms.to_string(g) + " >= 0]");
  for (const Factor& f : t.factors) put(factor_text(atoms, heads, f));
  return out;
}

std::string to_string(const Atoms& atoms, const Heads& heads, const Form& f) {
  if (f.empty()) return "0";
  std::string out;
  for (const Term& t : f) out += (out.empty() ? "" : "  +  ") + to_string(atoms, heads, t);
  return out;
}

Guards joined(const Guards& a, const Guards& b) {
  Guards g = a;
  g.insert(g.end(), b.begin(), b.end());
  return g;
}

}  // namespace isomer::verify
