#include "verify/order.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "verify/simplifier.h"

namespace isomer::verify {
namespace {

constexpr size_t kMostRows = 400;

bool plain(const Term& t) { return t.binders.empty() && t.guards.empty(); }

bool never_negative(const Heads& heads, const Factor& f) {
  if (f.kind == Factor::Kind::Read) return heads.not_negative(f.head);
  return f.kind == Factor::Kind::Apply && (heads.name(f.head) == kExp || heads.name(f.head) == "abs");
}

// A product of factors that are never negative, or of squares.
bool never_negative(const Heads& heads, const Term& t) {
  std::vector<Factor> rest;
  for (const Factor& f : t.factors) {
    if (never_negative(heads, f)) continue;
    const auto same = std::find_if(rest.begin(), rest.end(), [&](const Factor& g) { return compare(f, g) == 0; });
    if (same == rest.end())
      rest.push_back(f);
    else
      rest.erase(same);
  }
  return plain(t) && rest.empty();
}

// Linear arithmetic by elimination (Fourier and Motzkin): rows mean sum + constant >= 0, or > 0.
class Rows {
 public:
  struct Row {
    std::vector<Rational> of;  // by variable
    Rational constant;
    bool strict = false;
  };

  explicit Rows(const Heads& heads) : heads_(heads) {}

  void add(const Form& f, bool strict, const Rational& scale = {1, 1}) {
    Row row;
    row.strict = strict;
    for (const Term& t : f) {
      Term key = t;
      Rational c = scale;
      if (const auto r = t.coef.rational()) {
        c = c * *r;
        key.coef = 1;
      }
      if (key.factors.empty() && plain(key) && key.coef.is_one()) {
        row.constant = row.constant + c;
        continue;
      }
      const size_t v = variable(key);
      if (row.of.size() <= v) row.of.resize(v + 1);
      row.of[v] = row.of[v] + c;
    }
    rows_.push_back(std::move(row));
  }

  // What holds of the variables themselves; maxima may bring in more of them.
  void add_known() {
    const size_t given = rows_.size();
    for (size_t v = 0; v < variables_.size() && variables_.size() < 40; ++v) {
      const Term t = variables_[v];
      if (never_negative(heads_, t)) add({t}, false);
      add_bounds_of_literal(t);
      add_bounds_of_maximum(t);
      for (size_t r = 0; r < given; ++r) add_sign(t, rows_[r]);
    }
  }

  bool infeasible() {
    for (Row& r : rows_) r.of.resize(variables_.size());
    for (size_t done = 0; done < variables_.size(); ++done) {
      const auto v = cheapest();
      if (!v) break;
      if (!eliminate(*v)) return false;
    }
    return std::any_of(rows_.begin(), rows_.end(), [](const Row& r) {
      return std::all_of(r.of.begin(), r.of.end(), [](const Rational& c) { return c.num == 0; }) &&
             (r.constant.num < 0 || (r.constant.num == 0 && r.strict));
    });
  }

 private:
  size_t variable(const Term& key) {
    const auto it =
        std::find_if(variables_.begin(), variables_.end(), [&](const Term& t) { return compare(t, key) == 0; });
    if (it != variables_.end()) return static_cast<size_t>(it - variables_.begin());
    variables_.push_back(key);
    return variables_.size() - 1;
  }

  // A literal that is no small dyadic number is the single float nearest to what is written.
  void add_bounds_of_literal(const Term& t) {
    if (!plain(t) || !t.coef.is_one() || t.factors.size() != 1 || t.factors[0].kind != Factor::Kind::Read) return;
    const std::string& name = heads_.name(t.factors[0].head);
    if (name.size() < 2 || name[0] != '#' || std::isdigit(static_cast<unsigned char>(name[1])) == 0) return;
    const double v = std::strtod(name.c_str() + 1, nullptr);
    if (!(v > 1e-3 && v < 1e6)) return;
    constexpr double kParts = 1e8;
    const auto parts = [](double x) { return Rational{static_cast<int64_t>(x), static_cast<int64_t>(kParts)}; };
    const Rational low = parts(std::floor(v * (1 - 1e-6) * kParts)), high = parts(std::ceil(v * (1 + 1e-6) * kParts));
    add(verify::add({t}, number(Coef(Rational{-low.num, low.den}))), false);
    add(verify::add(scale({t}, -1), number(Coef(high))), false);
  }

  void add_bounds_of_maximum(const Term& t) {
    if (!plain(t) || !t.coef.is_one() || t.factors.size() != 1 || t.factors[0].kind != Factor::Kind::Max) return;
    for (const Term& candidate : t.factors[0].args[0])
      if (plain(candidate)) add(verify::add({t}, scale(candidate.factors[0].args[0], -1)), false);
  }

  // c * F >= 0 gives F its sign, and so every product of F with what is never negative.
  void add_sign(const Term& t, const Row& row) {
    if (!plain(t) || !t.coef.is_one() || row.constant.num != 0) return;
    std::optional<size_t> only;
    for (size_t v = 0; v < row.of.size(); ++v) {
      if (row.of[v].num == 0) continue;
      if (only) return;
      only = v;
    }
    if (!only) return;
    const Term known = variables_[*only];
    if (!plain(known) || !known.coef.is_one()) return;
    Term rest = t;
    for (const Factor& f : known.factors) {
      const auto it =
          std::find_if(rest.factors.begin(), rest.factors.end(), [&](const Factor& g) { return compare(f, g) == 0; });
      if (it == rest.factors.end()) return;
      rest.factors.erase(it);
    }
    if (!rest.factors.empty() && never_negative(heads_, rest)) add({t}, false, {row.of[*only].num < 0 ? -1 : 1, 1});
  }

  std::optional<size_t> cheapest() const {
    std::optional<size_t> best;
    size_t least = 0;
    for (size_t v = 0; v < variables_.size(); ++v) {
      size_t above = 0, below = 0;
      for (const Row& r : rows_) {
        above += r.of[v].num > 0 ? 1 : 0;
        below += r.of[v].num < 0 ? 1 : 0;
      }
      if (above + below == 0 || (best && above * below >= least)) continue;
      best = v;
      least = above * below;
    }
    return best;
  }

  bool eliminate(size_t v) {
    std::vector<Row> next;
    for (const Row& r : rows_)
      if (r.of[v].num == 0) next.push_back(r);
    for (const Row& a : rows_) {
      if (a.of[v].num <= 0) continue;
      for (const Row& b : rows_) {
        if (b.of[v].num >= 0) continue;
        const Rational x{-b.of[v].num, b.of[v].den}, y = a.of[v];
        Row sum;
        for (size_t k = 0; k < a.of.size(); ++k) sum.of.push_back(a.of[k] * x + b.of[k] * y);
        sum.constant = a.constant * x + b.constant * y;
        sum.strict = a.strict || b.strict;
        next.push_back(std::move(sum));
        if (next.size() > kMostRows) return false;
      }
    }
    rows_ = std::move(next);
    return true;
  }

  const Heads& heads_;
  std::vector<Term> variables_;
  std::vector<Row> rows_;
};

std::optional<OrderQuestion> question_of(const Atoms& atoms, const Heads& heads, const Factor& f) {
  for (const Form& arg : f.args)
    if (auto inner = order_question(atoms, heads, arg)) return inner;
  std::optional<OrderQuestion> out;
  if (f.kind == Factor::Kind::Max) {
    const Form& all = f.args[0];
    if (all.size() < 2 || !plain(all[0]) || !plain(all[1])) return std::nullopt;
    out = {add(all[0].factors[0].args[0], scale(all[1].factors[0].args[0], -1)), false};
  } else if (f.kind == Factor::Kind::Apply) {
    const std::string& name = heads.name(f.head);
    if (name == "abs") out = {f.args[0], false};
    if (name == kLess || name == kZero) out = {f.args[0], true};
  }
  if (!out) return std::nullopt;
  // A value that changes with a bound index has no one sign.
  std::set<AtomId> seen;
  for (const Term& t : out->of) collect(atoms, t, seen);
  const bool bound = std::any_of(seen.begin(), seen.end(), [&](AtomId a) { return atoms[a].kind == AtomKind::Bound; });
  return bound ? std::nullopt : out;
}

}  // namespace

bool Order::entails(const Form& f, bool strict) const {
  Rows rows(heads_);
  for (const Fact& fact : facts_) rows.add(fact.form, fact.strict);
  rows.add(f, !strict, {-1, 1});
  rows.add_known();
  return rows.infeasible();
}

std::optional<OrderQuestion> order_question(const Atoms& atoms, const Heads& heads, const Form& f) {
  for (const Term& t : f)
    for (const Factor& g : t.factors)
      if (auto found = question_of(atoms, heads, g)) return found;
  return std::nullopt;
}

Form where_zero(const Form& f, const Form& value) {
  if (value.size() != 1 || !plain(value[0]) || value[0].factors.size() != 1 || !value[0].coef.rational()) return f;
  const Factor& gone = value[0].factors[0];
  Form out;
  for (const Term& t : f) {
    if (std::any_of(t.factors.begin(), t.factors.end(), [&](const Factor& g) { return compare(g, gone) == 0; }))
      continue;
    Term kept = t;
    for (Factor& g : kept.factors)
      for (Form& arg : g.args) arg = where_zero(arg, value);
    out.push_back(std::move(kept));
  }
  return out;
}

}  // namespace isomer::verify
