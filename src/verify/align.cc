// Putting two terms side by side: binders are renamed by solving the equations between their indices.
#include <algorithm>
#include <numeric>

#include "verify/zero.h"

namespace isomer::verify {
namespace {

bool same_head(const Factor& a, const Factor& b) {
  return a.kind == b.kind && a.head == b.head && a.index.size() == b.index.size() && a.args.size() == b.args.size();
}

// An equation divided by what is common and never zero.
Poly reduced(const Atoms& atoms, const Poly& p) {
  if (p.is_zero()) return p;
  if (p.constant() != 0) return p;
  return tidy(atoms, p);
}

}  // namespace

void ZeroTest::equations(const Factor& a, const Factor& b, std::vector<Poly>& out) {
  for (size_t i = 0; i < a.index.size(); ++i) out.push_back(a.index[i] - b.index[i]);
  for (size_t i = 0; i < a.args.size(); ++i) {
    const Form &x = a.args[i], &y = b.args[i];
    if (x.size() != y.size()) continue;
    for (size_t k = 0; k < x.size(); ++k) {
      if (x[k].factors.size() != y[k].factors.size()) continue;
      for (size_t j = 0; j < x[k].factors.size(); ++j)
        if (same_head(x[k].factors[j], y[k].factors[j])) equations(x[k].factors[j], y[k].factors[j], out);
    }
  }
}

// Unknowns with coefficient 1 or -1 are solved for; an equation d * P + R = 0 with |R| < d falls apart into two.
Substitution ZeroTest::solve(std::vector<Poly> eqs, const std::vector<AtomId>& unknowns, const Guards& context) {
  Substitution solved;
  std::vector<AtomId> open = unknowns;
  for (int round = 0; round < 200; ++round) {
    bool progress = false;
    for (size_t i = 0; i < eqs.size() && !progress; ++i) {
      const Poly e = reduced(atoms_, eqs[i]);
      if (e.is_zero()) {
        eqs.erase(eqs.begin() + static_cast<ptrdiff_t>(i));
        progress = true;
        break;
      }
      for (AtomId v : open) {
        const int64_t c = e.coefficient(v);
        const Poly rest = e - Poly::atom(v) * Poly(c);
        if ((c != 1 && c != -1) || atoms_.occurs(rest, v)) continue;
        const Substitution s{{v, rest * Poly(-c)}};
        for (auto& [u, value] : solved) value = atoms_.substitute(value, s);
        solved[v] = s.begin()->second;
        eqs.erase(eqs.begin() + static_cast<ptrdiff_t>(i));
        for (Poly& p : eqs) p = atoms_.substitute(p, s);
        std::erase(open, v);
        progress = true;
        break;
      }
    }
    if (progress) continue;
    for (size_t i = 0; i < eqs.size() && !progress; ++i) {
      const Poly e = reduced(atoms_, eqs[i]);
      const bool unknown = std::any_of(open.begin(), open.end(), [&](AtomId v) { return atoms_.occurs(e, v); });
      if (!unknown) continue;
      std::set<Poly> divisors;
      for (const auto& [m, c] : e.terms()) {
        if (c > 1 || c < -1) divisors.insert(Poly(c < 0 ? -c : c));
        for (AtomId a : m)
          if (m.size() > 1 && atoms_[a].kind == AtomKind::Size && atoms_[a].lower >= 1) divisors.insert(Poly::atom(a));
      }
      for (const Poly& d : divisors) {
        Guards all = context;
        for (const auto& [v, value] : solved) {
          all.push_back(Poly::atom(v) - value);
          all.push_back(value - Poly::atom(v));
        }
        const Division parts = divide(e, d);
        if (parts.rest.is_zero() || parts.quotient.is_const()) continue;
        if (!solver_.entails(all, d - Poly(1) - parts.rest) || !solver_.entails(all, d - Poly(1) + parts.rest))
          continue;
        eqs[i] = parts.quotient;
        eqs.push_back(parts.rest);
        progress = true;
        break;
      }
    }
    if (!progress) break;
  }
  return solved;
}

// Unknowns that no equation speaks of are paired with targets that nothing uses, in every order.
std::vector<Substitution> ZeroTest::completions(Substitution map, const std::vector<AtomId>& unknowns,
                                                const std::vector<AtomId>& targets) {
  std::vector<AtomId> open, unused;
  for (AtomId u : unknowns)
    if (!map.contains(u)) open.push_back(u);
  for (AtomId t : targets) {
    const bool used =
        std::any_of(map.begin(), map.end(), [&](const auto& item) { return atoms_.occurs(item.second, t); });
    if (!used) unused.push_back(t);
  }
  if (open.empty()) return {map};
  if (open.size() > 3 || unused.size() != open.size()) return {};
  std::vector<Substitution> out;
  std::sort(unused.begin(), unused.end());
  do {
    Substitution full = map, names;
    for (size_t i = 0; i < open.size(); ++i) {
      full[open[i]] = Poly::atom(unused[i]);
      names[open[i]] = full[open[i]];
    }
    for (auto& [u, value] : full) value = atoms_.substitute(value, names);
    out.push_back(std::move(full));
  } while (std::next_permutation(unused.begin(), unused.end()));
  return out;
}

// Whether map: to -> from is a bijection of the integer points: solved back, both compositions are the identity.
bool ZeroTest::invertible(const Substitution& map, const std::vector<AtomId>& from, const std::vector<AtomId>& to) {
  if (from.size() != to.size() || map.size() != from.size()) return false;
  std::vector<Poly> eqs;
  for (const auto& [u, value] : map) {
    for (AtomId f : from)
      if (atoms_.occurs(value, f)) return false;
    eqs.push_back(value - Poly::atom(u));
  }
  const Substitution back = solve(eqs, to, {});
  if (back.size() != to.size()) return false;
  for (const auto& [t, value] : back) {
    for (AtomId x : to)
      if (atoms_.occurs(value, x)) return false;
    if (!(atoms_.substitute(value, map) == Poly::atom(t))) return false;
  }
  return std::all_of(map.begin(), map.end(),
                     [&](const auto& item) { return atoms_.substitute(item.second, back) == Poly::atom(item.first); });
}

std::optional<ZeroTest::Alignment> ZeroTest::align_by(const Term& t, const Term& u, const std::vector<size_t>& order,
                                                      const Guards& context) {
  std::vector<Poly> all;
  for (size_t i = 0; i < order.size(); ++i) equations(t.factors[i], u.factors[order[i]], all);
  std::set<AtomId> hidden;
  for (const Term* term : {&t, &u})
    for (const Factor& f : term->factors) inner_binders(f, hidden);
  std::erase_if(all, [&](const Poly& p) {
    return std::any_of(hidden.begin(), hidden.end(), [&](AtomId a) { return atoms_.occurs(p, a); });
  });
  const Guards known = joined(joined(context, t.guards), u.guards);
  for (const Substitution& map : completions(solve(all, u.binders, known), u.binders, t.binders)) {
    if (!invertible(map, u.binders, t.binders)) continue;
    Alignment out{map, u.guards};
    substitute(atoms_, out.guards, map);
    std::vector<Factor> other;
    for (size_t i : order) {
      other.push_back(u.factors[i]);
      substitute(atoms_, other.back(), map);
    }
    if (same_factors(t, other, joined(joined(context, t.guards), out.guards))) return out;
  }
  return std::nullopt;
}

std::optional<ZeroTest::Alignment> ZeroTest::align(const Term& t, const Term& u, const Guards& context) {
  if (t.factors.size() != u.factors.size() || t.binders.size() != u.binders.size()) return std::nullopt;
  std::vector<size_t> order(t.factors.size());
  std::iota(order.begin(), order.end(), size_t{0});
  int tried = 0;
  do {
    bool fits = true;
    for (size_t i = 0; i < order.size() && fits; ++i) fits = same_head(t.factors[i], u.factors[order[i]]);
    if (!fits) continue;
    if (++tried > 200) break;
    if (auto a = align_by(t, u, order, context)) return a;
  } while (order.size() <= 7 && std::next_permutation(order.begin(), order.end()));
  return std::nullopt;
}

bool ZeroTest::same_factors(const Term& t, const std::vector<Factor>& other, const Guards& context) {
  for (size_t i = 0; i < other.size(); ++i)
    if (!same_factor(t.factors[i], other[i], context)) return false;
  return true;
}

bool ZeroTest::same_factor(const Factor& a, const Factor& b, const Guards& context) {
  if (!same_head(a, b)) return false;
  for (size_t i = 0; i < a.index.size(); ++i)
    if (!solver_.entails_zero(context, a.index[i] - b.index[i])) return false;
  if (a.kind == Factor::Kind::Max) return same_max(a.args[0], b.args[0], context);
  for (size_t i = 0; i < a.args.size(); ++i)
    if (compare(a.args[i], b.args[i]) != 0 && !equal(a.args[i], b.args[i], context)) return false;
  return true;
}

bool ZeroTest::same_max(const Form& a, const Form& b, const Guards& context) {
  if (compare(a, b) == 0) return true;
  const auto all = [&](const Form& x, const Form& y) {
    return std::all_of(x.begin(), x.end(), [&](const Term& t) { return covered(t, y, context); });
  };
  return all(a, b) && all(b, a);
}

// Every value that the candidate takes is taken by one of `by` too, wherever the candidate's guards hold.
bool ZeroTest::covered(const Term& candidate, const Form& by, const Guards& context) {
  const Guards inner = joined(context, candidate.guards);
  if (solver_.infeasible(inner)) return true;
  std::vector<Guards> witnesses;  // guards under which one of `by` is there and has the value
  for (const Term& other : by) {
    const Term u = renamed(atoms_, other);
    if (!same_head(candidate.factors[0], u.factors[0])) continue;
    std::vector<Poly> eqs;
    equations(candidate.factors[0], u.factors[0], eqs);
    std::set<AtomId> hidden;
    inner_binders(candidate.factors[0], hidden);
    inner_binders(u.factors[0], hidden);
    std::erase_if(eqs, [&](const Poly& p) {
      return std::any_of(hidden.begin(), hidden.end(), [&](AtomId a) { return atoms_.occurs(p, a); });
    });
    std::vector<Substitution> maps = {solve(eqs, u.binders, joined(inner, u.guards))};
    // Binders that the value does not fix take any value that the guards allow: their bounds are tried.
    for (AtomId v : u.binders) {
      std::vector<Substitution> next;
      for (const Substitution& m : maps) {
        if (m.contains(v)) {
          next.push_back(m);
          continue;
        }
        for (Poly g : u.guards) {
          g = atoms_.substitute(g, m);
          const int64_t c = g.coefficient(v);
          const Poly rest = g - Poly::atom(v) * Poly(c);
          if ((c != 1 && c != -1) || atoms_.occurs(rest, v)) continue;
          Substitution s = m;
          const Substitution one{{v, rest * Poly(-c)}};
          for (auto& [w, value] : s) value = atoms_.substitute(value, one);
          s[v] = one.begin()->second;
          next.push_back(std::move(s));
        }
        for (AtomId b : candidate.binders) {
          Substitution s = m;
          const Substitution one{{v, Poly::atom(b)}};
          for (auto& [w, value] : s) value = atoms_.substitute(value, one);
          s[v] = Poly::atom(b);
          next.push_back(std::move(s));
        }
        if (next.size() > 64) break;
      }
      maps = std::move(next);
    }
    for (const Substitution& m : maps) {
      Guards g = u.guards;
      substitute(atoms_, g, m);
      if (std::any_of(u.binders.begin(), u.binders.end(), [&](AtomId v) {
            return std::any_of(g.begin(), g.end(), [&](const Poly& p) { return atoms_.occurs(p, v); });
          }))
        continue;
      Factor f = u.factors[0];
      substitute(atoms_, f, m);
      const Guards both = joined(inner, g);
      if (solver_.infeasible(both) || !same_factor(candidate.factors[0], f, both)) continue;
      std::erase_if(g, [&](const Poly& p) { return solver_.entails(inner, p); });
      if (g.empty()) return true;
      if (tidy(atoms_, g) && std::find(witnesses.begin(), witnesses.end(), g) == witnesses.end())
        witnesses.push_back(std::move(g));
    }
  }
  // The witnesses together: wherever the first fails, the others must hold.
  const std::function<bool(size_t, const Guards&)> cover = [&](size_t i, const Guards& here) {
    if (solver_.infeasible(here)) return true;
    if (i == witnesses.size()) return false;
    Guards so_far = here;
    for (const Poly& p : witnesses[i]) {
      Guards fails = so_far;
      fails.push_back(-p - Poly(1));
      if (!cover(i + 1, fails)) return false;
      so_far.push_back(p);
    }
    return true;
  };
  std::stable_sort(witnesses.begin(), witnesses.end(),
                   [](const Guards& x, const Guards& y) { return x.size() < y.size(); });
  if (witnesses.size() > 24) witnesses.resize(24);
  return !witnesses.empty() && cover(0, inner);
}

}  // namespace isomer::verify
