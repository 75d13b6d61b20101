#include "verify/solver.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "base/arithmetic.h"

namespace isomer::verify {
namespace {

// The product of the smallest values of a monomial's atoms, when all are sizes.
std::optional<int64_t> least(const Atoms& atoms, const Monomial& m) {
  int64_t v = 1;
  for (AtomId a : m) {
    if (atoms[a].kind != AtomKind::Size || atoms[a].lower < 0) return std::nullopt;
    const auto next = checked_mul(v, atoms[a].lower);
    if (!next) return std::nullopt;
    v = *next;
  }
  return v;
}

Monomial common(const Atoms& atoms, const Poly& p) {
  Monomial shared;
  bool first = true;
  for (const auto& [m, c] : p.terms()) {
    if (first) {
      shared = m;
      first = false;
      continue;
    }
    Monomial both;
    std::set_intersection(shared.begin(), shared.end(), m.begin(), m.end(), std::back_inserter(both));
    shared = std::move(both);
  }
  Monomial positive;
  for (AtomId a : shared)
    if (atoms[a].kind == AtomKind::Size && atoms[a].lower >= 1) positive.push_back(a);
  return positive;
}

}  // namespace

Poly tidy(const Atoms& atoms, const Poly& guard) {
  Poly p = guard;
  if (const Monomial shared = common(atoms, p); !shared.empty()) {
    Poly q;
    for (const auto& [m, c] : p.terms()) {
      Monomial rest;
      std::set_difference(m.begin(), m.end(), shared.begin(), shared.end(), std::back_inserter(rest));
      q.add_term(std::move(rest), c);
    }
    p = std::move(q);
  }
  const int64_t g = content(p);
  if (g > 1) {
    Poly q;
    for (const auto& [m, c] : p.terms()) q.add_term(m, m.empty() ? isomer::floor_div(c, g) : c / g);
    p = std::move(q);
  }
  return p;
}

bool tidy(const Atoms& atoms, Guards& guards) {
  Guards out;
  for (const Poly& g : guards) {
    Poly p = tidy(atoms, g);
    if (p.is_const()) {
      if (p.constant() < 0) return false;
      continue;
    }
    out.push_back(std::move(p));
  }
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  guards = std::move(out);
  return true;
}

bool Solver::obvious(const Poly& p) const {
  int64_t bound = 0;
  for (const auto& [m, c] : p.terms()) {
    const auto low = least(atoms_, m);
    if (!m.empty() && (c < 0 || !low)) return false;
    const auto part = checked_mul(m.empty() ? 1 : *low, c);
    const auto sum = part ? checked_add(bound, *part) : std::nullopt;
    if (!sum) return false;
    bound = *sum;
  }
  return bound >= 0;
}

bool Solver::entails(const Guards& context, const Poly& p) {
  if (p.is_const()) return p.constant() >= 0;
  if (obvious(p)) return true;
  const Poly own = tidy(atoms_, p);
  if (own.is_const()) return own.constant() >= 0;
  if (std::find(context.begin(), context.end(), own) != context.end()) return true;
  Guards s = cone(context, own);
  s.push_back(-own - Poly(1));
  return unsat(std::move(s), 0);
}

bool Solver::entails_by_digits(const Guards& context, const Poly& p) {
  if (entails(context, p)) return true;
  Guards s = cone(context, p);
  s.insert(s.begin(), p);
  // Quotients are flattened in the goal and in the context at once: they share variables. The goal stays first.
  flatten_quotients(s, 0, 1);
  const Poly goal = s.front();
  s.erase(s.begin());
  return by_digits(s, goal, 0);
}

// d * P + R >= 0 follows from P >= 0 and R >= 0.
bool Solver::by_digits(const Guards& context, const Poly& p, int depth) {
  if (entails(context, p)) return true;
  if (depth > 5) return false;
  std::set<AtomId> divisors;
  for (const auto& [m, c] : p.terms())
    for (AtomId a : m)
      if (m.size() > 1 && atoms_[a].kind == AtomKind::Size && atoms_[a].lower >= 1) divisors.insert(a);
  for (AtomId a : divisors) {
    const Poly d = Poly::atom(a);
    const Division parts = divide(p, d);
    for (const int64_t z : {0, 1})
      if (entails(context, parts.rest + d * Poly(z)) && by_digits(context, parts.quotient - Poly(z), depth + 1))
        return true;
  }
  return false;
}

bool Solver::infeasible(const Guards& context) { return unsat(context, 0); }

// Guards that share variables with p, directly or through one another; facts of sizes come with their sizes.
Guards Solver::cone(const Guards& context, const Poly& p) const {
  std::set<AtomId> reached;
  atoms_.collect(p, reached);
  std::vector<std::set<AtomId>> own(context.size());
  std::vector<bool> taken(context.size(), false);
  std::vector<bool> of_sizes(context.size(), false);
  for (size_t i = 0; i < context.size(); ++i) {
    atoms_.collect(context[i], own[i]);
    of_sizes[i] = atoms_.sizes_only(context[i]);
  }
  for (bool grew = true; grew;) {
    grew = false;
    for (size_t i = 0; i < context.size(); ++i) {
      if (taken[i]) continue;
      const bool meets = std::any_of(own[i].begin(), own[i].end(), [&](AtomId a) {
        return reached.contains(a) && (of_sizes[i] || atoms_[a].kind != AtomKind::Size);
      });
      if (!meets) continue;
      taken[i] = grew = true;
      reached.insert(own[i].begin(), own[i].end());
    }
  }
  Guards out;
  for (size_t i = 0; i < context.size(); ++i)
    if (taken[i]) out.push_back(context[i]);
  return out;
}

bool Solver::flatten_one(Guards& s, AtomId quotient, int depth, size_t goals) {
  const Poly e = atoms_[quotient].e, d = atoms_[quotient].d;
  if (!obvious(d - Poly(1))) {
    Guards others = {-d};
    for (size_t i = goals; i < s.size(); ++i)
      if (!atoms_.occurs(s[i], quotient)) others.push_back(s[i]);
    if (depth > 1 || !unsat(std::move(others), depth + 1)) return false;
  }
  auto it = parts_.find(quotient);
  if (it == parts_.end()) {
    const AtomId q = atoms_.fresh(AtomKind::Bound, "quot"), r = atoms_.fresh(AtomKind::Bound, "rest");
    it = parts_.emplace(quotient, std::pair(q, r)).first;
  }
  const Poly q = Poly::atom(it->second.first), r = Poly::atom(it->second.second);
  std::optional<AtomId> pivot;
  for (const auto& [m, c] : e.terms()) {
    if (m.size() != 1 || (c != 1 && c != -1)) continue;
    const Atom& a = atoms_[m[0]];
    if ((a.kind != AtomKind::Free && a.kind != AtomKind::Bound) || atoms_.occurs(d, m[0])) continue;
    if (atoms_.occurs(e - Poly::atom(m[0]) * Poly(c), m[0])) continue;
    pivot = m[0];
    break;
  }
  const Substitution name{{quotient, q}};
  for (Poly& p : s) p = atoms_.substitute(p, name);
  if (!pivot) {
    s.push_back(e - d * q);
    s.push_back(d * q + d - Poly(1) - e);
    return true;
  }
  const int64_t sign = e.coefficient(*pivot);
  const Poly rest = e - Poly::atom(*pivot) * Poly(sign);
  const Substitution move{{*pivot, (d * q + r - rest) * Poly(sign)}};
  for (Poly& p : s) p = atoms_.substitute(p, move);
  const Guards range = {r, d - Poly(1) - r};
  Guards more;
  for (size_t i = goals; i < s.size(); ++i) {
    const Poly& p = s[i];
    // p = d * P + R with R < d * (k + 1) says P + k >= 0.
    const Division parts = divide(p, d);
    if (parts.quotient.is_zero() || parts.quotient.is_const()) continue;
    for (const int64_t k : {-1, 0}) {
      Guards sides = range;
      for (size_t j = goals; j < s.size(); ++j)
        if (j != i) sides.push_back(s[j]);
      Guards query = cone(sides, parts.rest);
      query.push_back(parts.rest - d * Poly(k + 1));
      if (depth > 2 || !unsat(std::move(query), depth + 1)) continue;
      more.push_back(parts.quotient + Poly(k));
      break;
    }
  }
  s.insert(s.end(), range.begin(), range.end());
  s.insert(s.end(), more.begin(), more.end());
  return true;
}

void Solver::flatten_quotients(Guards& s, int depth, size_t goals) {
  std::set<AtomId> refused;
  for (int round = 0; round < 40; ++round) {
    std::set<AtomId> all;
    for (const Poly& p : s) atoms_.collect(p, all);
    std::optional<AtomId> innermost;
    for (AtomId a : all) {
      if (atoms_[a].kind != AtomKind::Quotient || refused.contains(a)) continue;
      std::set<AtomId> inside;
      atoms_.collect(atoms_[a].e, inside);
      atoms_.collect(atoms_[a].d, inside);
      const bool nested = std::any_of(inside.begin(), inside.end(), [&](AtomId b) {
        return atoms_[b].kind == AtomKind::Quotient && !refused.contains(b);
      });
      if (!nested) {
        innermost = a;
        break;
      }
    }
    if (!innermost) return;
    if (!flatten_one(s, *innermost, depth, goals)) refused.insert(*innermost);
  }
}

bool Solver::quick(const Guards& s) const {
  for (size_t i = 0; i < s.size(); ++i) {
    if (obvious(-s[i] - Poly(1))) return true;
    for (size_t j = 0; j < i; ++j)
      if (obvious(-(s[i] + s[j]) - Poly(1))) return true;
  }
  return false;
}

bool Solver::in_pool(const Guards& s) const {
  for (const auto& model : pool_) {
    const auto value = [&](const Poly& p) {
      double total = 0;
      for (const auto& [m, c] : p.terms()) {
        double v = static_cast<double>(c);
        for (AtomId a : m) {
          const auto it = model.find(a);
          v *= it != model.end() ? it->second : static_cast<double>(atoms_[a].lower);
        }
        total += v;
      }
      return total;
    };
    if (std::all_of(s.begin(), s.end(), [&](const Poly& p) { return value(p) >= -1e-9; })) return true;
  }
  return false;
}

bool Solver::unsat(Guards s, int depth) {
  if (!tidy(atoms_, s)) return true;
  flatten_quotients(s, depth);
  if (!tidy(atoms_, s)) return true;
  if (++stats_.queries > max_queries_) throw GiveUp{"the proof asks too many questions of the solver"};
  if (const auto it = cache_.find(s); it != cache_.end()) {
    ++stats_.cached;
    return it->second;
  }
  bool answer = false;
  if (quick(s)) {
    ++stats_.quick;
    answer = true;
  } else if (in_pool(s)) {
    ++stats_.pooled;
  } else {
    ++stats_.solved;
    answer = check(s);
  }
  cache_.emplace(std::move(s), answer);
  return answer;
}

bool Solver::check(const Guards& s) {
  LinearSolver::Answer answer = linear_.ask(atoms_, s);
  if (answer.impossible) return true;
  if (!answer.values)
    ++stats_.unknown;
  else if (pool_.size() < 60)
    pool_.push_back(std::move(*answer.values));
  else
    pool_[next_in_pool_++ % 60] = std::move(*answer.values);
  return false;
}

}  // namespace isomer::verify
