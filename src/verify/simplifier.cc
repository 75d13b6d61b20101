#include "verify/simplifier.h"

#include <algorithm>

namespace isomer::verify {
namespace {

constexpr int kMaxSteps = 3000;
constexpr size_t kMaxTerms = 2000;

Guards without(const Guards& guards, size_t skipped) {
  Guards g = guards;
  g.erase(g.begin() + static_cast<ptrdiff_t>(skipped));
  return g;
}

bool has(const Guards& guards, const Poly& p) { return std::find(guards.begin(), guards.end(), p) != guards.end(); }

bool seen_by_factors(const Atoms& atoms, const Term& t, AtomId binder) {
  std::set<AtomId> seen;
  for (const Factor& f : t.factors) collect(atoms, f, seen);
  return seen.contains(binder);
}

}  // namespace

Form multiply(Atoms& atoms, const Form& a, const Form& b) {
  if (a.size() * b.size() > kMaxTerms) throw GiveUp{"the normal form grows too large"};
  Form out;
  for (const Term& x : a)
    for (const Term& y : b) {
      Term t = x;
      const Term other = renamed(atoms, y);
      t.coef = t.coef * other.coef;
      t.binders.insert(t.binders.end(), other.binders.begin(), other.binders.end());
      t.guards.insert(t.guards.end(), other.guards.begin(), other.guards.end());
      t.factors.insert(t.factors.end(), other.factors.begin(), other.factors.end());
      out.push_back(std::move(t));
    }
  return out;
}

void Simplifier::replace(Term& t, AtomId binder, const Poly& value) {
  std::erase(t.binders, binder);
  substitute(atoms_, t, {{binder, value}});
}

// A quotient that the guards other than its own decide.
bool Simplifier::settle_quotient(Term& t, const Guards& context, AtomId q) {
  const Poly e = atoms_[q].e, d = atoms_[q].d;
  Guards others = context;
  for (const Poly& g : t.guards)
    if (!atoms_.occurs(g, q)) others.push_back(g);
  for (const int64_t z : {0, 1, -1}) {
    const Poly rest = e - d * Poly(z);
    if (!solver_.entails(others, rest) || !solver_.entails(others, d - Poly(1) - rest)) continue;
    substitute(atoms_, t, {{q, Poly(z)}});
    return true;
  }
  return false;
}

bool Simplifier::bind_quotient(Term& t, const Guards& context, AtomId q) {
  const Poly e = atoms_[q].e, d = atoms_[q].d;
  for (AtomId v : t.binders) {
    const Poly rest = e - d * Poly::atom(v);
    if (!has(t.guards, tidy(atoms_, rest)) || !has(t.guards, tidy(atoms_, d - Poly(1) - rest))) continue;
    substitute(atoms_, t, {{q, Poly::atom(v)}});
    return true;
  }
  const bool own = std::any_of(t.binders.begin(), t.binders.end(),
                               [&](AtomId b) { return atoms_.occurs(e, b) || atoms_.occurs(d, b); });
  if (!own || !solver_.entails(joined(context, t.guards), d - Poly(1))) return false;
  const AtomId v = atoms_.fresh(AtomKind::Bound, "q");
  const Poly vp = Poly::atom(v);
  substitute(atoms_, t, {{q, vp}});
  t.binders.push_back(v);
  std::optional<AtomId> pivot;
  for (AtomId b : t.binders) {
    const int64_t c = e.coefficient(b);
    if (b == v || (c != 1 && c != -1) || atoms_.occurs(d, b) || atoms_.occurs(e - Poly::atom(b) * Poly(c), b)) continue;
    pivot = b;
  }
  if (!pivot) {
    t.guards.push_back(e - d * vp);
    t.guards.push_back(d - Poly(1) - e + d * vp);
    return true;
  }
  const int64_t c = e.coefficient(*pivot);
  const AtomId r = atoms_.fresh(AtomKind::Bound, "r");
  const Poly rp = Poly::atom(r), rest = e - Poly::atom(*pivot) * Poly(c);
  replace(t, *pivot, (rp + d * vp - rest) * Poly(c));
  t.binders.push_back(r);
  t.guards.push_back(rp);
  t.guards.push_back(d - Poly(1) - rp);
  return true;
}

bool Simplifier::quotients(Term& t, const Guards& context) {
  std::set<AtomId> all, inner;
  collect(atoms_, t, all);
  for (const Factor& f : t.factors) inner_binders(f, inner);
  // Ids grow from the inside out: a quotient is made after those that it holds.
  for (AtomId q : all) {
    if (atoms_[q].kind != AtomKind::Quotient) continue;
    std::set<AtomId> own;
    atoms_.collect(Poly::atom(q), own);
    const bool hidden = std::any_of(own.begin(), own.end(), [&](AtomId a) { return inner.contains(a); });
    if (hidden) continue;
    if (settle_quotient(t, context, q) || bind_quotient(t, context, q)) return true;
  }
  return false;
}

bool Simplifier::equalities(Term& t) {
  for (const Poly& p : t.guards) {
    if (!has(t.guards, -p)) continue;
    for (AtomId b : t.binders) {
      const int64_t c = p.coefficient(b);
      const Poly rest = p - Poly::atom(b) * Poly(c);
      if ((c != 1 && c != -1) || atoms_.occurs(rest, b)) continue;
      replace(t, b, rest * Poly(-c));
      return true;
    }
  }
  return false;
}

bool Simplifier::floor_rule(Guards& guards, const Guards& context) {
  for (size_t i = 0; i < guards.size(); ++i) {
    const Poly p = guards[i];
    std::set<Poly> divisors;
    for (const auto& [m, c] : p.terms()) {
      if (m.empty()) continue;
      if (c > 1 || c < -1) divisors.insert(Poly(c < 0 ? -c : c));
      if (m.size() < 2) continue;
      for (AtomId a : m)
        if (atoms_[a].kind == AtomKind::Size && atoms_[a].lower >= 1) divisors.insert(Poly::atom(a));
    }
    if (divisors.empty()) continue;
    const Guards others = joined(context, without(guards, i));
    for (const Poly& d : divisors) {
      const Division parts = divide(p, d);
      if (parts.quotient.is_const() || parts.rest.is_zero()) continue;
      for (const int64_t z : {0, 1, -1}) {
        const Poly rest = parts.rest - d * Poly(z);
        if (!solver_.entails(others, rest) || !solver_.entails(others, d - Poly(1) - rest)) continue;
        guards[i] = parts.quotient + Poly(z);
        return true;
      }
    }
  }
  return false;
}

void Simplifier::tighten(Guards& guards) {
  for (int step = 0; step < 200; ++step) {
    if (!tidy(atoms_, guards)) {
      guards = {Poly(-1)};
      return;
    }
    if (!floor_rule(guards, {})) return;
  }
}

bool Simplifier::drop_entailed(Term& t, const Guards& context) {
  for (size_t i = t.guards.size(); i-- > 0;) {
    if (!solver_.entails(joined(context, without(t.guards, i)), t.guards[i])) continue;
    t.guards = without(t.guards, i);
    return true;
  }
  return false;
}

bool Simplifier::unit_width(Term& t, const Guards& context) {
  const Guards all = joined(context, t.guards);
  for (AtomId b : t.binders)
    for (const Poly& low : t.guards) {
      if (low.coefficient(b) != 1) continue;
      const Poly from = Poly::atom(b) - low;  // b >= from
      if (atoms_.occurs(from, b)) continue;
      for (const Poly& high : t.guards) {
        if (high.coefficient(b) != -1) continue;
        const Poly to = high + Poly::atom(b);  // b <= to
        if (atoms_.occurs(to, b) || !solver_.entails(all, from - to)) continue;
        replace(t, b, from);
        return true;
      }
    }
  // A binder that is seen only multiplied by sizes may have room for one value all the same.
  for (AtomId b : t.binders) {
    const bool multiplied = std::any_of(t.guards.begin(), t.guards.end(),
                                        [&](const Poly& g) { return g.mentions(b) && g.coefficient(b) == 0; });
    if (!multiplied) continue;
    for (const int64_t z : {0, 1, -1}) {
      const Poly above = Poly::atom(b) - Poly(z);
      if (!solver_.entails(all, above) || !solver_.entails(all, -above)) continue;
      replace(t, b, Poly(z));
      return true;
    }
  }
  return false;
}

// Binders (outer, inner) with 0 <= inner < T that are seen only as T * outer + inner are one binder.
bool Simplifier::merge_pair(Term& t, AtomId outer, AtomId inner) {
  const Poly u = Poly::atom(inner), o = Poly::atom(outer);
  if (!has(t.guards, u)) return false;
  for (const Poly& g : t.guards) {
    const Poly size = g + u + Poly(1);  // g is size - 1 - u
    if (atoms_.occurs(size, inner) || atoms_.occurs(size, outer) || !atoms_.sizes_only(size)) continue;
    const AtomId k = atoms_.fresh(AtomKind::Bound, "k");
    const Poly kp = Poly::atom(k);
    Term r = t;
    Guards kept;
    for (const Poly& h : t.guards) {
      if (h == u || h == g) continue;
      if (atoms_.occurs(h, outer) && !atoms_.occurs(h, inner)) {
        const int64_t c = h.coefficient(outer);
        const Poly rest = h - o * Poly(c);
        if (atoms_.occurs(rest, outer) || (c != 1 && c != -1)) {
          kept.push_back(h);  // will be seen to hold the binder, and refused
          continue;
        }
        kept.push_back(c == 1 ? kp + rest * size : rest * size + size - Poly(1) - kp);
      } else {
        kept.push_back(h);
      }
    }
    r.guards = std::move(kept);
    substitute(atoms_, r, {{inner, kp - size * o}});
    std::set<AtomId> left;
    collect(atoms_, r, left);
    if (left.contains(outer) || left.contains(inner)) continue;
    std::erase(r.binders, outer);
    std::erase(r.binders, inner);
    r.binders.push_back(k);
    t = std::move(r);
    return true;
  }
  return false;
}

bool Simplifier::merge(Term& t) {
  for (AtomId outer : t.binders)
    for (AtomId inner : t.binders)
      if (outer != inner && merge_pair(t, outer, inner)) return true;
  return false;
}

bool Simplifier::dangling(Term& t, const Guards& context, Mode mode) {
  for (AtomId b : t.binders) {
    if (seen_by_factors(atoms_, t, b)) continue;
    std::vector<Poly> low, high;
    bool plain = true;
    Guards others = context;
    for (const Poly& g : t.guards) {
      if (!atoms_.occurs(g, b)) {
        others.push_back(g);
        continue;
      }
      const int64_t c = g.coefficient(b);
      const Poly rest = g - Poly::atom(b) * Poly(c);
      if (atoms_.occurs(rest, b) || (c != 1 && c != -1)) plain = false;
      (c == 1 ? low : high).push_back(c == 1 ? -rest : rest);
    }
    if (!plain || low.size() != 1 || high.size() != 1) continue;
    const Poly width = high[0] - low[0] + Poly(1);
    const auto forget = [&] {
      std::erase_if(t.guards, [&](const Poly& g) { return atoms_.occurs(g, b); });
      std::erase(t.binders, b);
    };
    if (mode == Mode::Candidates) {
      if (!solver_.entails(others, width - Poly(1))) continue;
      forget();
      return true;
    }
    if (!atoms_.sizes_only(width) || !solver_.entails(others, width)) continue;
    forget();
    t.coef = t.coef * Coef::of(width);
    return true;
  }
  return false;
}

bool Simplifier::inside(Term& t, const Guards& context) {
  bool changed = false;
  const Guards all = joined(context, t.guards);
  for (Factor& f : t.factors)
    for (Form& arg : f.args) {
      Form simpler = form(arg, all, f.kind == Factor::Kind::Max ? Mode::Candidates : Mode::Sum);
      if (compare(simpler, arg) == 0) continue;
      arg = std::move(simpler);
      changed = true;
    }
  return changed;
}

// exp(a) * recip(exp(a)) = 1; a truth value is its own square.
bool Simplifier::cancel(Term& t, const Guards& context) {
  const int exp = heads_.of(kExp), recip = heads_.of(kRecip);
  for (size_t i = 0; i < t.factors.size(); ++i)
    for (size_t j = i + 1; j < t.factors.size() && is_truth(t.factors[i]); ++j) {
      if (compare(t.factors[i], t.factors[j]) != 0) continue;
      t.factors.erase(t.factors.begin() + static_cast<ptrdiff_t>(j));
      return true;
    }
  for (size_t i = 0; i < t.factors.size(); ++i) {
    if (t.factors[i].kind != Factor::Kind::Apply || t.factors[i].head != exp) continue;
    for (size_t j = 0; j < t.factors.size(); ++j) {
      const Factor& g = t.factors[j];
      if (g.kind != Factor::Kind::Apply || g.head != recip || g.args[0].size() != 1) continue;
      const Term& inner = g.args[0][0];
      if (!inner.coef.is_one() || !inner.binders.empty() || !inner.guards.empty() || inner.factors.size() != 1)
        continue;
      const Factor& e = inner.factors[0];
      if (e.kind != Factor::Kind::Apply || e.head != exp) continue;
      const Form &a = t.factors[i].args[0], &b = e.args[0];
      if (compare(a, b) != 0 && !(equal_ && equal_(a, b, joined(context, t.guards)))) continue;
      t.factors.erase(t.factors.begin() + static_cast<ptrdiff_t>(std::max(i, j)));
      t.factors.erase(t.factors.begin() + static_cast<ptrdiff_t>(std::min(i, j)));
      return true;
    }
  }
  return false;
}

bool Simplifier::term(Term& t, const Guards& context, Mode mode) {
  for (int step = 0; step < kMaxSteps; ++step) {
    if (t.coef.is_zero() || !tidy(atoms_, t.guards)) return false;
    if (quotients(t, context) || equalities(t)) continue;
    if (floor_rule(t.guards, context) || drop_entailed(t, context)) continue;
    if (solver_.infeasible(joined(context, t.guards))) return false;
    if (unit_width(t, context) || merge(t) || dangling(t, context, mode)) continue;
    if (inside(t, context) || cancel(t, context)) continue;
    std::sort(t.factors.begin(), t.factors.end(), [](const Factor& a, const Factor& b) { return compare(a, b) < 0; });
    return true;
  }
  throw GiveUp{"simplifying a term does not come to an end"};
}

// A guard inside a factor that does not depend on the binders there: the term falls apart by it.
std::optional<Poly> Simplifier::liftable(const Term& t) const {
  for (const Factor& f : t.factors)
    for (const Form& arg : f.args)
      for (const Term& inner : arg)
        for (const Poly& g : inner.guards) {
          const bool own =
              std::any_of(inner.binders.begin(), inner.binders.end(), [&](AtomId b) { return atoms_.occurs(g, b); });
          if (!own) return g;
        }
  return std::nullopt;
}

Form Simplifier::form(const Form& f, const Guards& context, Mode mode) {
  if (++depth_ > 40) throw GiveUp{"functions are nested too deeply"};
  Form work(f.rbegin(), f.rend()), out;
  for (size_t steps = 0; !work.empty(); ++steps) {
    if (steps > kMaxTerms) throw GiveUp{"the normal form grows too large"};
    Term t = std::move(work.back());
    work.pop_back();
    if (!term(t, context, mode)) continue;
    if (const auto g = liftable(t)) {
      Term other = t;
      other.guards.push_back(-*g - Poly(1));
      t.guards.push_back(*g);
      work.push_back(std::move(other));
      work.push_back(std::move(t));
      continue;
    }
    bool expanded = false;
    for (size_t i = 0; i < t.factors.size() && !expanded; ++i) {
      // A candidate keeps its wrapping.
      if (mode == Mode::Candidates && t.factors[i].head == heads_.of(kWrap)) continue;
      auto value = expand(t.factors[i]);
      if (!value) continue;
      t.factors.erase(t.factors.begin() + static_cast<ptrdiff_t>(i));
      Form product = multiply(atoms_, {t}, *value);
      work.insert(work.end(), product.rbegin(), product.rend());
      expanded = true;
    }
    if (!expanded) out.push_back(std::move(t));
  }
  --depth_;
  return out;
}

}  // namespace isomer::verify
