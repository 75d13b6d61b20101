#include "loop/affine.h"

#include <algorithm>
#include <unordered_map>

#include "base/arithmetic.h"
#include "te/substitute.h"

namespace isomer::loop {
namespace {

using te::BinaryOp;
using te::Expr;
using te::Kind;

constexpr int64_t kWide = int64_t{1} << 60;
constexpr Range kAnything{-kWide, kWide};

int64_t clamped(int64_t v) { return std::clamp(v, -kWide, kWide); }
int64_t sum(int64_t a, int64_t b) { return clamped(clamped(a) + clamped(b)); }
int64_t product(int64_t a, int64_t b) {
  int64_t r;
  if (!__builtin_mul_overflow(a, b, &r)) return clamped(r);
  return (a < 0) == (b < 0) ? kWide : -kWide;
}
int64_t wrapping(int64_t a, int64_t b, int64_t factor) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b) * static_cast<uint64_t>(factor));
}

bool before(const Expr& a, const Expr& b) {
  const bool va = a->kind == Kind::Var, vb = b->kind == Kind::Var;
  if (va != vb) return va;
  if (va) return a->var < b->var;
  return te::hash(a) < te::hash(b);
}

bool same_atom(const Expr& a, const Expr& b) { return a.same_node(b) || te::equal(a, b); }

void collect(const Expr& e, int64_t factor, Affine& out) {
  if (e->kind == Kind::Int) {
    out.constant = wrapping(out.constant, e->integer, factor);
    return;
  }
  if (e.dtype() == DType::I64 && e->kind == Kind::Unary && e->unary == te::UnaryOp::Neg)
    return collect(e->args[0], -factor, out);
  if (e.dtype() == DType::I64 && e->kind == Kind::Binary) {
    const Expr &a = e->args[0], &b = e->args[1];
    if (e->binary == BinaryOp::Add || e->binary == BinaryOp::Sub) {
      collect(a, factor, out);
      return collect(b, e->binary == BinaryOp::Add ? factor : -factor, out);
    }
    if (e->binary == BinaryOp::Mul && b->kind == Kind::Int) return collect(a, wrapping(0, factor, b->integer), out);
    if (e->binary == BinaryOp::Mul && a->kind == Kind::Int) return collect(b, wrapping(0, factor, a->integer), out);
  }
  out.add(e, factor);
}

void min_arms(const Expr& e, std::vector<Expr>& out) {
  if (e->kind == Kind::Binary && e->binary == BinaryOp::Min) {
    min_arms(e->args[0], out);
    min_arms(e->args[1], out);
  } else {
    out.push_back(e);
  }
}

}  // namespace

int64_t Affine::coefficient(int var) const {
  for (const Term& t : terms)
    if (t.atom->kind == Kind::Var && t.atom->var == var) return t.coefficient;
  return 0;
}

void Affine::add(const Expr& atom, int64_t c) {
  if (c == 0) return;
  auto it = std::lower_bound(terms.begin(), terms.end(), atom,
                             [](const Term& t, const Expr& e) { return before(t.atom, e); });
  if (it != terms.end() && same_atom(it->atom, atom)) {
    it->coefficient = wrapping(it->coefficient, c, 1);
    if (it->coefficient == 0) terms.erase(it);
  } else {
    terms.insert(it, {atom, c});
  }
}

Affine affine_of(const Expr& e) {
  Affine out;
  collect(e, 1, out);
  return out;
}

Affine add(Affine a, const Affine& b, int64_t factor) {
  a.constant = wrapping(a.constant, b.constant, factor);
  for (const Affine::Term& t : b.terms) a.add(t.atom, wrapping(0, t.coefficient, factor));
  return a;
}

Expr to_expr(const Affine& a) {
  Expr out;
  for (const Affine::Term& t : a.terms) {
    const bool first = out.empty();
    if (!first && t.coefficient < 0 && t.coefficient != INT64_MIN) {
      out = out - (t.coefficient == -1 ? t.atom : t.atom * Expr(-t.coefficient));
      continue;
    }
    const Expr term = t.coefficient == 1 ? t.atom : t.atom * Expr(t.coefficient);
    out = first ? term : out + term;
  }
  if (out.empty()) return Expr(a.constant);
  if (a.constant == 0) return out;
  return a.constant < 0 && a.constant != INT64_MIN ? out - Expr(-a.constant) : out + Expr(a.constant);
}

bool same(const Affine& a, const Affine& b) {
  if (a.constant != b.constant || a.terms.size() != b.terms.size()) return false;
  for (size_t i = 0; i < a.terms.size(); ++i)
    if (a.terms[i].coefficient != b.terms[i].coefficient || !same_atom(a.terms[i].atom, b.terms[i].atom)) return false;
  return true;
}

bool uses(const Expr& e, int var) {
  const std::vector<int> all = te::free_vars(e);
  return std::find(all.begin(), all.end(), var) != all.end();
}

void variables(const Expr& e, std::vector<int>& out) {
  for (const int v : te::free_vars(e))
    if (std::find(out.begin(), out.end(), v) == out.end()) out.push_back(v);
}

bool has_read(const Expr& e) {
  bool found = false;
  te::for_each_node(e, [&](const Expr& x) { found |= x->kind == Kind::Read; });
  return found;
}

Expr rebuild(const Expr& root, const std::function<Expr(const Expr&)>& replace) {
  std::unordered_map<const void*, Expr> done;
  te::for_each_node(root, [&](const Expr& e) {
    Expr now = e;
    bool changed = false;
    te::Node n = *e;
    for (Expr& x : n.args) {
      const Expr& y = done.at(x.identity());
      changed |= !y.same_node(x);
      x = y;
    }
    if (changed) now = Expr::make(std::move(n));
    const Expr other = replace(now);
    done.emplace(e.identity(), other.empty() ? now : other);
  });
  return done.at(root.identity());
}

Expr substitute(const Expr& e, const Substitution& variables) {
  if (variables.empty() || e.empty()) return e;
  te::Substitution by;
  for (const auto& [var, value] : variables) by.var(var, value);
  return by(e);
}

void Ranges::push(int var, const Expr& extent) {
  const Range r = range(extent);
  scope_.push_back({var, extent, {0, sum(r.high, -1)}});
}

bool Ranges::knows(int var) const { return extent(var) != nullptr; }

const Expr* Ranges::extent(int var) const {
  for (size_t i = scope_.size(); i-- > 0;)
    if (scope_[i].var == var) return &scope_[i].extent;
  return nullptr;
}

Range Ranges::plain(const Affine& a) const {
  Range r{a.constant, a.constant};
  for (const Affine::Term& t : a.terms) {
    const Range x = range(t.atom);
    const int64_t p = product(x.low, t.coefficient), q = product(x.high, t.coefficient);
    r = {sum(r.low, std::min(p, q)), sum(r.high, std::max(p, q))};
  }
  return r;
}

// A variable that runs to min(8, M - 8*i) is at most M - 8*i - 1, whatever i is: the smallest bound of all arms.
int64_t Ranges::highest(Affine a, int depth) const {
  int64_t best = plain(a).high;
  if (depth == 0) return best;
  for (size_t i = scope_.size(); i-- > 0;) {
    const int64_t c = a.coefficient(scope_[i].var);
    if (c <= 0 || scope_[i].extent->kind == Kind::Int) continue;
    std::vector<Expr> arms;
    min_arms(scope_[i].extent, arms);
    for (const Expr& arm : arms) {
      Affine b = a;
      b.add(Expr(te::Axis{scope_[i].var, "", Dim(0)}), -c);
      b = loop::add(std::move(b), affine_of(arm - Expr(1)), c);
      best = std::min(best, highest(std::move(b), depth - 1));
    }
    break;
  }
  return std::min(best, highest_by_quotients(a, depth));
}

// floordiv(x, c) lies in (x - c + 1) / c .. x / c, and x may cancel against the rest: bounds c times the form.
int64_t Ranges::highest_by_quotients(const Affine& a, int depth) const {
  int64_t best = kWide;
  for (const Affine::Term& t : a.terms) {
    const te::Node& n = *t.atom;
    if (n.kind != Kind::Binary || n.binary != BinaryOp::FloorDiv || n.args[1]->kind != Kind::Int) continue;
    const int64_t c = n.args[1]->integer;
    if (c <= 0 || c > (int64_t{1} << 20)) continue;
    Affine b = a;
    b.add(t.atom, -t.coefficient);
    Affine x = affine_of(n.args[0]);
    if (t.coefficient < 0) x.constant -= c - 1;
    const int64_t scaled = highest(loop::add(loop::add(Affine{}, b, c), x, t.coefficient), depth - 1);
    best = std::min(best, floor_div(scaled, c));
  }
  return best;
}

Range Ranges::range(const Affine& a) const {
  constexpr int kDepth = 6;
  return {-highest(add(Affine{}, a, -1), kDepth), highest(a, kDepth)};
}

Range Ranges::range(const Expr& e) const {
  switch (e->kind) {
    case Kind::Int: return {clamped(e->integer), clamped(e->integer)};
    case Kind::Var:
      for (size_t i = scope_.size(); i-- > 0;)
        if (scope_[i].var == e->var) return scope_[i].range;
      return kAnything;
    case Kind::Select: {
      const Range a = range(e->args[1]), b = range(e->args[2]);
      return {std::min(a.low, b.low), std::max(a.high, b.high)};
    }
    case Kind::Binary: break;
    default: return kAnything;
  }
  if (e.dtype() != DType::I64) return kAnything;
  const Expr& by = e->args[1];
  switch (e->binary) {
    case BinaryOp::Add:
    case BinaryOp::Sub: return range(affine_of(e));
    case BinaryOp::Mul: {
      const Range a = range(e->args[0]), b = range(by);
      const int64_t v[] = {product(a.low, b.low), product(a.low, b.high), product(a.high, b.low),
                           product(a.high, b.high)};
      return {*std::min_element(v, v + 4), *std::max_element(v, v + 4)};
    }
    case BinaryOp::Min:
    case BinaryOp::Max: {
      const Range a = range(e->args[0]), b = range(by);
      if (e->binary == BinaryOp::Min) return {std::min(a.low, b.low), std::min(a.high, b.high)};
      return {std::max(a.low, b.low), std::max(a.high, b.high)};
    }
    case BinaryOp::And:
      if (by->kind != Kind::Int || by->integer < 0) return kAnything;
      return {0, by->integer};
    case BinaryOp::FloorDiv: {
      if (by->kind != Kind::Int || by->integer <= 0) return kAnything;
      const Range a = range(e->args[0]);
      return {floor_div(a.low, by->integer), floor_div(a.high, by->integer)};
    }
    case BinaryOp::FloorMod: {
      if (by->kind != Kind::Int || by->integer <= 0) return kAnything;
      const Range a = range(e->args[0]);
      if (a.low >= 0 && a.high < by->integer) return a;
      return {0, by->integer - 1};
    }
    default: return kAnything;
  }
}

std::optional<std::vector<Affine>> inequalities(const Expr& c) {
  if (c->kind == Kind::Int) {
    if (c->integer) return std::vector<Affine>{};
    return std::vector<Affine>{Affine{-1, {}}};
  }
  if (c->kind != Kind::Binary) return std::nullopt;
  const Expr &a = c->args[0], &b = c->args[1];
  if (c->binary == BinaryOp::And && c.dtype() == DType::Bool) {
    auto left = inequalities(a), right = inequalities(b);
    if (!left || !right) return std::nullopt;
    left->insert(left->end(), right->begin(), right->end());
    return left;
  }
  if (a.dtype() != DType::I64 || has_read(c)) return std::nullopt;
  Affine d = add(affine_of(b), affine_of(a), -1);
  if (c->binary == BinaryOp::Le) return std::vector<Affine>{d};
  if (c->binary == BinaryOp::Eq) return std::vector<Affine>{d, add(Affine{}, d, -1)};
  if (c->binary != BinaryOp::Lt) return std::nullopt;
  d.constant -= 1;
  return std::vector<Affine>{d};
}

// Written as a comparison of what grows with what stays: i*8 + j < 20.
Expr condition_of(const Affine& a) {
  Affine left, right;
  for (const Affine::Term& t : a.terms)
    (t.coefficient < 0 ? left.add(t.atom, -t.coefficient) : right.add(t.atom, t.coefficient));
  if (a.constant >= 0)
    right.constant = a.constant + 1;
  else
    left.constant = -a.constant - 1;
  return to_expr(left) < to_expr(right);
}

}  // namespace isomer::loop
