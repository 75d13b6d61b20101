// What is known of a few functions: exp, log, reciprocal, selection, maximum. Kept tiny, each an equality of real numbers.
#include <algorithm>

#include "verify/simplifier.h"

namespace isomer::verify {
namespace {

bool plain(const Term& t) { return t.binders.empty() && t.guards.empty(); }

Term single(Factor f) {
  Term t;
  t.factors.push_back(std::move(f));
  return t;
}

// A form that is one factor and nothing else.
const Factor* only_factor(const Form& f) {
  if (f.size() != 1 || !plain(f[0]) || !f[0].coef.is_one() || f[0].factors.size() != 1) return nullptr;
  return &f[0].factors[0];
}

// A form that is a number without sizes.
bool is_number(const Form& f) {
  return std::all_of(f.begin(), f.end(), [](const Term& t) { return plain(t) && t.factors.empty(); });
}

Coef number_of(const Form& f) {
  Coef c;
  for (const Term& t : f) c = c + t.coef;
  return c;
}

}  // namespace

// exp(a + b) = exp(a) exp(b), exp(0) = 1, exp(-a) = 1 / exp(a).
std::optional<Form> Simplifier::expand_exp(const Factor& f) {
  const Form& n = f.args[0];
  if (n.empty()) return number(1);
  if (n.size() > 1) {
    Term t;
    for (const Term& part : n) t.factors.push_back(wrap(f.head, {part}));
    return Form{t};
  }
  if (!n[0].coef.negative()) return std::nullopt;
  return Form{single(wrap(heads_.of(kRecip), {single(wrap(f.head, scale(n, -1)))}))};
}

// 1 / (c a b) = (1 / c) (1 / a) (1 / b), also for a factor that all terms of a sum share; 1 / (1 / exp a) = exp a.
std::optional<Form> Simplifier::expand_recip(const Factor& f) {
  const Form& n = f.args[0];
  if (n.empty()) return std::nullopt;
  if (const Factor* inner = only_factor(n)) {
    if (inner->kind != Factor::Kind::Apply || inner->head != f.head) return std::nullopt;
    const Factor* again = only_factor(inner->args[0]);
    if (!again || again->kind != Factor::Kind::Apply || again->head != heads_.of(kExp)) return std::nullopt;
    return Form{single(*again)};
  }
  if (is_number(n)) {
    const auto inverse = number_of(n).inverse(atoms_);
    return inverse ? std::optional(number(*inverse)) : std::nullopt;
  }
  if (n.size() == 1 && plain(n[0])) {
    const auto inverse = n[0].coef.inverse(atoms_);
    if (!inverse) return std::nullopt;
    Term t;
    t.coef = *inverse;
    for (const Factor& g : n[0].factors) t.factors.push_back(wrap(f.head, {single(g)}));
    return Form{t};
  }
  for (const Factor& g : n[0].factors) {
    std::set<AtomId> seen;
    collect(atoms_, g, seen);
    Form rest;
    for (const Term& t : n) {
      const bool bound = std::any_of(t.binders.begin(), t.binders.end(), [&](AtomId b) { return seen.contains(b); });
      const auto it =
          std::find_if(t.factors.begin(), t.factors.end(), [&](const Factor& h) { return compare(g, h) == 0; });
      if (bound || it == t.factors.end()) break;
      rest.push_back(t);
      rest.back().factors.erase(rest.back().factors.begin() + (it - t.factors.begin()));
    }
    if (rest.size() != n.size()) continue;
    Term t;
    t.factors.push_back(wrap(f.head, {single(g)}));
    t.factors.push_back(wrap(f.head, std::move(rest)));
    return Form{t};
  }
  // A common number goes out too.
  if (std::all_of(n.begin(), n.end(), [&](const Term& t) { return t.coef == n[0].coef; }) && !n[0].coef.is_one()) {
    const auto inverse = n[0].coef.inverse(atoms_);
    if (!inverse) return std::nullopt;
    Form rest = n;
    for (Term& t : rest) t.coef = 1;
    return scale({single(wrap(f.head, std::move(rest)))}, *inverse);
  }
  return std::nullopt;
}

// log(exp(a) b) = a + log(b) and log(1 / a) = -log(a): what is a number on one side is so on the other.
std::optional<Form> Simplifier::expand_log(const Factor& f) {
  const Form& n = f.args[0];
  if (n.size() != 1 || !plain(n[0])) return std::nullopt;
  for (size_t i = 0; i < n[0].factors.size(); ++i) {
    const Factor& g = n[0].factors[i];
    if (g.kind != Factor::Kind::Apply) continue;
    Term rest = n[0];
    rest.factors.erase(rest.factors.begin() + static_cast<ptrdiff_t>(i));
    const bool alone = rest.factors.empty() && rest.coef.is_one();
    const Factor* inverted = g.head == heads_.of(kRecip) ? only_factor(g.args[0]) : nullptr;
    const bool of_exp = inverted && inverted->kind == Factor::Kind::Apply && inverted->head == heads_.of(kExp);
    Form out;
    if (g.head == heads_.of(kExp))
      out = g.args[0];
    else if (of_exp)
      out = scale(inverted->args[0], -1);
    else if (g.head == heads_.of(kRecip) && alone)
      return scale({single(wrap(f.head, g.args[0]))}, -1);
    else
      continue;
    return alone ? out : add(std::move(out), {single(wrap(f.head, {rest}))});
  }
  return std::nullopt;
}

// What the order of a case settles.
std::optional<Form> Simplifier::by_order(const Factor& f) const {
  const std::string& name = heads_.name(f.head);
  if (order_.empty() || heads_.wrapping() || (name != "abs" && name != kLess && name != kZero)) return std::nullopt;
  const Form &value = f.args[0], negated = scale(value, -1);
  if (name == "abs" && order_.not_negative(value)) return value;
  if (name == "abs") return order_.not_negative(negated) ? std::optional(negated) : std::nullopt;
  const bool above = order_.positive(value), below = !above && order_.positive(negated);
  if (above || below) return number(name == kLess && below ? 1 : 0);
  const bool not_below = order_.not_negative(value);
  if (name == kLess) return not_below ? std::optional(number(0)) : std::nullopt;
  return not_below && order_.not_negative(negated) ? std::optional(number(1)) : std::nullopt;
}

// Candidates that another one is never below.
bool Simplifier::drop_smaller(Form& candidates) const {
  if (order_.empty() || heads_.wrapping()) return false;
  for (size_t i = 0; i < candidates.size(); ++i)
    for (size_t k = 0; k < candidates.size(); ++k) {
      if (i == k || !plain(candidates[i]) || !plain(candidates[k])) continue;
      const Form ahead = add(candidates[k].factors[0].args[0], scale(candidates[i].factors[0].args[0], -1));
      if (!order_.not_negative(ahead)) continue;
      candidates.erase(candidates.begin() + static_cast<ptrdiff_t>(i));
      return true;
    }
  return false;
}

// Of numbers a comparison is decided; otherwise what is compared with 0 has no common factor, and one sign for equality.
std::optional<Form> Simplifier::expand_comparison(const Factor& f) {
  const Form& n = f.args[0];
  const bool less = heads_.name(f.head) == kLess;
  if (is_number(n)) {
    const auto c = number_of(n).rational();
    if (!c) return std::nullopt;
    return number((less ? c->num < 0 : c->num == 0) ? 1 : 0);
  }
  const auto first = n[0].coef.rational();
  if (!first || first->num == 0) return std::nullopt;
  const bool keeps_sign = less && first->num < 0;
  const int64_t num = first->num < 0 ? -first->num : first->num;
  const Rational by{first->num < 0 && !keeps_sign ? -first->den : first->den, num};
  if (by == Rational{1, 1}) return std::nullopt;
  return Form{single(wrap(f.head, scale(n, Coef(by))))};
}

bool Simplifier::is_truth(const Factor& f) const {
  if (f.kind == Factor::Kind::Read) return heads_.truth(f.head);
  return f.kind == Factor::Kind::Apply && (heads_.name(f.head) == kLess || heads_.name(f.head) == kZero);
}

std::optional<Form> Simplifier::expand_max(const Factor& f) {
  const int wrapped = heads_.of(kWrap), lowest = heads_.of(kLowest);
  const Form& all = f.args[0];
  Form kept;
  bool changed = false;
  for (const Term& candidate : all) {
    const Form& value = candidate.factors[0].args[0];
    const Factor* inner = only_factor(value);
    if (inner && inner->kind == Factor::Kind::Read && inner->head == lowest) {
      changed = true;
    } else if (inner && inner->kind == Factor::Kind::Max) {
      for (const Term& nested : inner->args[0]) {
        Term t = renamed(atoms_, nested);
        t.binders.insert(t.binders.end(), candidate.binders.begin(), candidate.binders.end());
        t.guards.insert(t.guards.end(), candidate.guards.begin(), candidate.guards.end());
        kept.push_back(std::move(t));
      }
      changed = true;
    } else if (std::any_of(kept.begin(), kept.end(), [&](const Term& t) { return compare(t, candidate) == 0; })) {
      changed = true;
    } else {
      kept.push_back(candidate);
    }
  }
  while (drop_smaller(kept)) changed = true;
  if (kept.empty()) return Form{single({Factor::Kind::Read, lowest, {}, {}})};
  if (kept.size() == 1 && plain(kept[0]) && kept[0].factors[0].head == wrapped) return kept[0].factors[0].args[0];
  Term outside = common_factor(kept);
  if (!changed && outside.factors.empty() && outside.coef.is_one()) return std::nullopt;
  Factor g{Factor::Kind::Max, f.head, {}, {}};
  g.args.push_back(std::move(kept));
  outside.factors.push_back(std::move(g));
  return Form{outside};
}

bool Simplifier::not_negative(const Factor& f) const {
  if (f.kind == Factor::Kind::Read) return heads_.not_negative(f.head);
  return f.kind == Factor::Kind::Apply && heads_.name(f.head) == kExp;
}

// max(c a, c b) = c max(a, b) for c >= 0: what all candidates share is taken out of them. A candidate 0 shares all.
Term Simplifier::common_factor(Form& candidates) {
  Term out;
  if (heads_.wrapping()) return out;
  Rational largest{0, 1};
  bool numbers = true;
  std::optional<Term> first;
  for (const Term& c : candidates)
    for (const Term& t : c.factors[0].args[0]) {
      const auto r = t.coef.rational();
      numbers = numbers && r.has_value();
      if (!r) continue;
      const Rational size{r->num < 0 ? -r->num : r->num, r->den};
      if ((largest + Rational{-size.num, size.den}).num < 0) largest = size;
      if (!first) first = t;
    }
  if (!first) return out;
  if (numbers && !(largest == Rational{1, 1})) {
    out.coef = Coef(largest);
    for (Term& c : candidates)
      for (Term& t : c.factors[0].args[0]) t.coef = t.coef * Coef(Rational{largest.den, largest.num});
  }
  for (const Factor& g : first->factors) {
    if (!not_negative(g)) continue;
    std::set<AtomId> seen;
    collect(atoms_, g, seen);
    Form rest = candidates;
    bool shared = true;
    for (Term& c : rest) {
      shared = shared && std::none_of(c.binders.begin(), c.binders.end(), [&](AtomId b) { return seen.contains(b); });
      for (Term& t : c.factors[0].args[0]) {
        const auto it =
            std::find_if(t.factors.begin(), t.factors.end(), [&](const Factor& h) { return compare(g, h) == 0; });
        shared = shared && it != t.factors.end() &&
                 std::none_of(t.binders.begin(), t.binders.end(), [&](AtomId b) { return seen.contains(b); });
        if (shared) t.factors.erase(it);
      }
    }
    if (!shared) continue;
    candidates = std::move(rest);
    out.factors.push_back(g);
    return out;
  }
  return out;
}

std::optional<Form> Simplifier::expand(const Factor& f) {
  if (f.kind == Factor::Kind::Max) return expand_max(f);
  if (f.kind != Factor::Kind::Apply) return std::nullopt;
  const std::string& name = heads_.name(f.head);
  if (name == kWrap) return f.args[0];
  if (auto settled = by_order(f)) return settled;
  if (name == kExp) return expand_exp(f);
  if (name == kLog) return expand_log(f);
  if (name == kRecip) return expand_recip(f);
  if (name == kLess || name == kZero) return expand_comparison(f);
  if (f.args.size() == 1 && f.args[0].empty()) {
    static constexpr std::string_view kKeepZero[] = {"sqrt",  "abs",   "sin", "tan",   "asin", "atan",  "sinh", "tanh",
                                                     "asinh", "atanh", "erf", "floor", "ceil", "round", "trunc"};
    if (std::find(std::begin(kKeepZero), std::end(kKeepZero), name) != std::end(kKeepZero)) return Form{};
    if (name == "cos" || name == "cosh") return number(1);
  }
  return std::nullopt;
}

}  // namespace isomer::verify
