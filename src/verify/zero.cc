#include "verify/zero.h"

#include <algorithm>

namespace isomer::verify {
namespace {}  // namespace

ZeroTest::ZeroTest(Solver& solver, Heads& heads)
    : atoms_(solver.atoms()), solver_(solver), heads_(heads), simplifier_(solver, heads) {
  simplifier_.set_equal([this](const Form& a, const Form& b, const Guards& context) { return equal(a, b, context); });
}

// A quotient over free variables alone splits a variable into two: o = r + d * q - rest, which loses nothing.
bool ZeroTest::settle_free_quotients(Form& f, Guards& context) {
  std::set<AtomId> all, bound;
  for (const Term& t : f) {
    collect(atoms_, t, all);
    bound.insert(t.binders.begin(), t.binders.end());
    for (const Factor& g : t.factors) inner_binders(g, bound);
  }
  for (AtomId q : all) {
    if (atoms_[q].kind != AtomKind::Quotient) continue;
    std::set<AtomId> own;
    atoms_.collect(Poly::atom(q), own);
    if (std::any_of(own.begin(), own.end(), [&](AtomId a) { return bound.contains(a); })) continue;
    const Poly e = atoms_[q].e, d = atoms_[q].d;
    if (atoms_.sizes_only(e) || !solver_.entails(context, d - Poly(1))) continue;
    const Poly qp = Poly::atom(atoms_.fresh(AtomKind::Free, "q"));
    std::optional<AtomId> pivot;
    for (const auto& [m, c] : e.terms()) {
      if (m.size() != 1 || (c != 1 && c != -1)) continue;
      const AtomKind kind = atoms_[m[0]].kind;
      if (kind == AtomKind::Size || kind == AtomKind::Quotient || atoms_.occurs(d, m[0])) continue;
      if (!atoms_.occurs(e - Poly::atom(m[0]) * Poly(c), m[0])) pivot = m[0];
    }
    const Substitution name{{q, qp}};
    substitute(atoms_, f, name);
    substitute(atoms_, context, name);
    if (pivot) {
      const Poly r = Poly::atom(atoms_.fresh(AtomKind::Free, "r"));
      const int64_t c = e.coefficient(*pivot);
      const Substitution move{{*pivot, (r + d * qp - (e - Poly::atom(*pivot) * Poly(c))) * Poly(c)}};
      substitute(atoms_, f, move);
      substitute(atoms_, context, move);
      context.push_back(r);
      context.push_back(d - Poly(1) - r);
    } else {
      context.push_back(e - d * qp);
      context.push_back(d - Poly(1) - e + d * qp);
    }
    simplifier_.tighten(context);
    return true;
  }
  return false;
}

bool ZeroTest::split(const Form& f, const Guards& context, const Poly& guard) {
  for (const bool holds : {true, false}) {
    Guards here = context;
    here.push_back(holds ? guard : -guard - Poly(1));
    if (solver_.infeasible(here)) continue;
    Form form = f;
    if (holds && solver_.entails(context, -guard)) {
      // The guard can only just hold: an equation, by which a variable goes away.
      for (const auto& [m, c] : guard.terms()) {
        if (m.size() != 1 || (c != 1 && c != -1) || atoms_[m[0]].kind != AtomKind::Free) continue;
        const Poly rest = guard - Poly::atom(m[0]) * Poly(c);
        if (atoms_.occurs(rest, m[0])) continue;
        const Substitution s{{m[0], rest * Poly(-c)}};
        substitute(atoms_, form, s);
        substitute(atoms_, here, s);
        break;
      }
    }
    if (!zero(form, here)) return false;
  }
  return true;
}

bool ZeroTest::zero(const Form& given, const Guards& given_context) {
  if (given.empty()) return true;
  if (++depth_ > 60) throw GiveUp{"the proof splits into too many cases"};
  Guards context = given_context;
  Form f = given;
  for (int round = 0; round < 40 && settle_free_quotients(f, context); ++round) {
  }
  f = simplifier_.form(f, context);
  for (int round = 0; round < 40 && settle_free_quotients(f, context); ++round) f = simplifier_.form(f, context);
  if (unroll_)
    if (auto flat = unrolled(f, context)) f = simplifier_.form(*flat, context);
  bool answer = false;
  std::optional<Poly> undecided;
  for (const Term& t : f) {
    for (const Poly& g : t.guards) {
      const bool own = std::any_of(t.binders.begin(), t.binders.end(), [&](AtomId b) { return atoms_.occurs(g, b); });
      if (!own && !undecided) undecided = g;
    }
  }
  if (f.empty())
    answer = true;
  else if (undecided)
    answer = split(f, context, *undecided);
  else
    answer = cancel(f, context, 200);
  --depth_;
  return answer;
}

bool ZeroTest::cancel(Form f, const Guards& context, int budget) {
  if (f.empty()) return true;
  if (budget <= 0) return false;
  const Term t = f.front();
  // Plain numbers add up.
  if (t.factors.empty() && t.binders.empty()) {
    Coef sum;
    Form rest;
    for (const Term& u : f) {
      if (u.factors.empty() && u.binders.empty() && u.guards.empty())
        sum = sum + u.coef;
      else
        rest.push_back(u);
    }
    if (!sum.is_zero()) {
      leftover_ = to_string(atoms_, heads_, number(sum));
      return false;
    }
    return cancel(std::move(rest), context, budget - 1);
  }
  for (size_t i = 1; i < f.size(); ++i) {
    if (!(t.coef + f[i].coef).is_zero()) continue;
    const auto a = align(t, renamed(atoms_, f[i]), context);
    if (!a) continue;
    const Guards left = joined(context, t.guards), right = joined(context, a->guards);
    const bool same =
        std::all_of(t.guards.begin(), t.guards.end(), [&](const Poly& g) { return solver_.entails(right, g); }) &&
        std::all_of(a->guards.begin(), a->guards.end(), [&](const Poly& g) { return solver_.entails(left, g); });
    if (!same) continue;
    Form rest(f.begin() + 1, f.end());
    rest.erase(rest.begin() + static_cast<ptrdiff_t>(i - 1));
    return cancel(std::move(rest), context, budget - 1);
  }
  return cancel_all(f, 0, context, budget);
}

// All terms that stand beside the first one, together: point by point the coefficients of those that are there must
// add up to zero. Factors are equal only where both guards hold, so every pair is compared.
bool ZeroTest::cancel_all(const Form& f, size_t first, const Guards& context, int budget) {
  const Term& t = f[first];
  std::vector<Item> items = {{t.coef, t.guards}};
  std::vector<Term> group = {t};
  Form rest;
  for (size_t i = 0; i < f.size(); ++i) {
    if (i == first) continue;
    const Term u = renamed(atoms_, f[i]);
    const auto a = align(t, u, context);
    bool fits = a.has_value();
    Term moved = u;
    if (fits) {
      moved.binders = t.binders;
      moved.guards = a->guards;
      for (Factor& g : moved.factors) substitute(atoms_, g, a->map);
      for (size_t k = 1; k < group.size() && fits; ++k) {
        const Guards both = joined(joined(context, group[k].guards), moved.guards);
        if (solver_.infeasible(both)) continue;
        std::vector<size_t> order(t.factors.size());
        for (size_t j = 0; j < order.size(); ++j) order[j] = j;
        bool matched = false;
        do {
          matched = true;
          for (size_t j = 0; j < order.size() && matched; ++j)
            matched = same_factor(group[k].factors[j], moved.factors[order[j]], both);
        } while (!matched && order.size() <= 6 && std::next_permutation(order.begin(), order.end()));
        fits = matched;
      }
    }
    if (!fits) {
      rest.push_back(f[i]);
      continue;
    }
    items.push_back({moved.coef, moved.guards});
    group.push_back(std::move(moved));
  }
  if (items.size() < 2 || !sums_to_zero(items, context, 0)) {
    if (leftover_.empty()) {
      for (const Term& u : f) leftover_ += (leftover_.empty() ? "" : "  +  ") + to_string(atoms_, heads_, u);
    }
    return false;
  }
  return cancel(std::move(rest), context, budget - 1);
}

bool ZeroTest::sums_to_zero(std::vector<Item> items, const Guards& context, int depth) {
  if (depth > 40) return false;
  if (solver_.infeasible(context)) return true;
  std::vector<Item> left;
  for (Item& item : items) {
    std::erase_if(item.guards, [&](const Poly& g) { return solver_.entails(context, g); });
    if (!solver_.infeasible(joined(context, item.guards))) left.push_back(std::move(item));
  }
  const auto open = std::find_if(left.begin(), left.end(), [](const Item& i) { return !i.guards.empty(); });
  if (open == left.end()) {
    Coef sum;
    for (const Item& i : left) sum = sum + i.coef;
    return sum.is_zero();
  }
  const Poly g = open->guards.front();
  for (const bool holds : {true, false}) {
    Guards here = context;
    here.push_back(holds ? g : -g - Poly(1));
    if (!sums_to_zero(left, here, depth + 1)) return false;
  }
  return true;
}

// Binders that run over fewer than eight known values, written out.
std::optional<Form> ZeroTest::unrolled(const Form& f, const Guards& context) {
  Form out;
  bool changed = false;
  for (const Term& t : f) {
    std::optional<std::pair<AtomId, std::pair<int64_t, int64_t>>> found;
    for (AtomId b : t.binders) {
      std::optional<int64_t> low, high;
      for (const Poly& g : t.guards) {
        const int64_t c = g.coefficient(b);
        const Poly rest = g - Poly::atom(b) * Poly(c);
        if (!rest.is_const()) continue;
        if (c == 1) low = -rest.constant();
        if (c == -1) high = rest.constant();
      }
      if (low && high && *high - *low < 8) found = {b, {*low, *high}};
    }
    if (!found) {
      out.push_back(t);
      continue;
    }
    changed = true;
    for (int64_t v = found->second.first; v <= found->second.second; ++v) {
      Term u = renamed(atoms_, t);
      const size_t at =
          static_cast<size_t>(std::find(t.binders.begin(), t.binders.end(), found->first) - t.binders.begin());
      const AtomId b = u.binders[at];
      u.binders.erase(u.binders.begin() + static_cast<ptrdiff_t>(at));
      substitute(atoms_, u, {{b, Poly(v)}});
      out.push_back(std::move(u));
    }
  }
  if (!changed) return std::nullopt;
  if (out.size() > 600) throw GiveUp{"unrolling grows too large"};
  if (auto more = unrolled(out, context)) return more;
  return out;
}

}  // namespace isomer::verify
