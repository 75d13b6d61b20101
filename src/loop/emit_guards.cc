#include <algorithm>

#include "base/arithmetic.h"
#include "base/contains.h"
#include "loop/emitter.h"
#include "loop/guards.h"
#include "te/simplify.h"

namespace isomer::loop {

using te::Expr;
using te::Kind;

// Looks for a guard that depends on this loop and on a loop inside that must stay whole.
std::optional<Emitter::Cut> Emitter::find_cut(const Item& item) const {
  constexpr int kMostCuts = 6;  // in one another: each doubles what is inside
  if (cuts_ >= kMostCuts) return std::nullopt;
  std::vector<const Loop*> inside;
  for (const Item& i : item.body) inner_loops(i, inside);
  Ranges inner = ranges_;
  inner.push(item.loop.var, item.loop.extent);
  for (const Loop* l : inside) inner.push(l->var, l->extent);
  std::optional<Cut> found;
  each_block(item, [&](const Block& b) {
    for (const Affine& original : b.guards) {
      if (found) return;
      const auto is_original = [&](const Affine& u) { return same(u, original); };
      if (std::any_of(uncut_.begin(), uncut_.end(), is_original)) continue;
      const Affine g = now(original);
      Affine rest;
      rest.constant = g.constant;
      Cut cut{original, {}, 0, 0};
      int64_t c = 0;
      bool fits = true, whole = false;
      for (const Affine::Term& t : g.terms) {
        std::vector<int> used;
        variables(t.atom, used);
        if (contains(used, item.loop.var)) {
          fits &= cut.atom.empty() && used.size() == 1;
          cut.atom = t.atom;
          c = t.coefficient;
          continue;
        }
        for (const int v : used) {
          fits &= !ranges_.knows(v);
          const bool taken = b.tile && std::any_of(b.tile->axes.begin(), b.tile->axes.end(),
                                                   [&](const auto& vars) { return contains(vars, v); });
          for (const Loop* l : inside)
            whole |= !taken && l->var == v && (l->kind == LoopKind::Vector || l->kind == LoopKind::Unroll);
        }
        rest.add(t.atom, t.coefficient);
      }
      if (!fits || !whole || cut.atom.empty() || c >= 0) continue;
      const Range values = inner.range(cut.atom);
      cut.full = floor_div(inner.range(rest).low, -c) + 1;
      cut.count = values.high + 1;
      if (values.low == 0 && cut.full > 0 && cut.full < cut.count) found = cut;
    }
  });
  return found;
}

Expected<void> Emitter::cut_loop(const Item& item, const Cut& cut, Stmts& out) {
  Item whole = item;
  drop_guard(whole, cut.guard);
  const bool own = cut.atom->kind == Kind::Var && item.loop.kind != LoopKind::Parallel;
  const bool one = cut.count - cut.full == 1;
  if (own) {
    whole.loop.extent = cut.full;
    ISOMER_CHECK_OK(loop(whole, out));
    if (one) {
      const Substitution outside = bind(item.loop.var, Expr(cut.full));
      ISOMER_CHECK_OK(body(item, out));
      vars_ = outside;
      return {};
    }
    Item tail = item;
    tail.loop.var = next_var_++;
    tail.loop.extent = item.loop.extent - cut.full;
    const Substitution outside = bind(item.loop.var, var_expr(tail.loop) + Expr(cut.full));
    ISOMER_CHECK_OK(loop(tail, out));
    vars_ = outside;
    return {};
  }
  const Loop& l = item.loop;
  const LoopKind kind = l.kind == LoopKind::Parallel && !root_ ? LoopKind::Serial : l.kind;
  ranges_.push(l.var, l.extent);
  axes_.push_back({l.var, "", Dim(l.extent)});
  Stmts inner;
  ISOMER_CHECK_OK(cut_body(item, inner));
  axes_.pop_back();
  ranges_.pop();
  if (inner.empty()) return {};
  out.push_back(Stmt::loop(l.var, var_expr(l)->var_name, Expr(l.extent), kind, Stmt::seq(std::move(inner))));
  return {};
}

// The loop stays one, and its body is written twice for each guard that cuts it.
Expected<void> Emitter::cut_body(const Item& item, Stmts& out) {
  const auto cut = find_cut(item);
  if (!cut) return body(item, out);
  Item whole = item;
  drop_guard(whole, cut->guard);
  ++cuts_;
  Stmts yes, no;
  ISOMER_CHECK_OK(cut_body(whole, yes));
  const bool one = cut->count - cut->full == 1;
  if (one)
    atoms_.emplace_back(cut->atom, Expr(cut->full));
  else
    uncut_.push_back(cut->guard);
  ISOMER_CHECK_OK(cut_body(item, no));
  if (one)
    atoms_.pop_back();
  else
    uncut_.pop_back();
  --cuts_;
  const Expr condition = cut->atom < Expr(cut->full);
  if (!yes.empty() && !no.empty())
    out.push_back(Stmt::branch(condition, Stmt::seq(std::move(yes)), Stmt::seq(std::move(no))));
  else if (!yes.empty())
    out.push_back(Stmt::branch(condition, Stmt::seq(std::move(yes))));
  else if (!no.empty())
    out.push_back(Stmt::branch(!condition, Stmt::seq(std::move(no))));
  return {};
}

// The number of iterations that a guard leaves of a loop: all of what it says when its other variables are outside, else
// those that can reach the inner loops' first iterations.
std::optional<Expr> Emitter::bound_by(const Affine& guard, const Item& item, bool& exact) const {
  const Loop& l = item.loop;
  const int64_t c = guard.coefficient(l.var);
  Affine outer, inner;
  outer.constant = guard.constant;
  for (const Affine::Term& t : guard.terms) {
    if (t.atom->kind == Kind::Var && t.atom->var == l.var) continue;
    Affine one;
    one.add(t.atom, 1);
    if (contains(variables_of(one), l.var)) return std::nullopt;
    (in_scope(one) ? outer : inner).add(t.atom, t.coefficient);
  }
  if (c >= 0) return std::nullopt;
  exact = inner.is_number();
  if (!exact) {
    std::vector<const Loop*> inside;
    for (const Item& i : item.body) inner_loops(i, inside);
    Ranges ranges = ranges_;
    for (const Loop* i : inside) ranges.push(i->var, i->extent);
    outer.constant += ranges.range(inner).high;
  }
  return te::simplify(te::floor_div(to_expr(outer), Expr(-c)) + Expr(1), axes_);
}

Expr Emitter::tighten(Item& item) {
  const Loop& l = item.loop;
  std::vector<Expr> bounds;
  int64_t most = l.extent;
  for (const Affine& original : shared_guards(item)) {
    bool exact = false;
    const auto bound = bound_by(now(original), item, exact);
    if (!bound) continue;
    if (exact) drop_guard(item, original);
    if (ranges_.range(*bound).low >= l.extent) continue;
    if ((*bound)->kind == Kind::Int)
      most = std::min(most, (*bound)->integer);
    else if (exact || l.kind == LoopKind::Serial)
      bounds.push_back(*bound);
  }
  // Of two bounds that differ by a number one is enough.
  std::vector<Expr> least;
  for (const Expr& b : bounds) {
    bool needed = ranges_.range(b).low < most;
    for (Expr& o : least) {
      const Affine d = add(affine_of(b), affine_of(o), -1);
      if (!d.is_number()) continue;
      if (d.constant < 0) o = b;
      needed = false;
    }
    if (needed) least.push_back(b);
  }
  Expr extent(most);
  for (const Expr& b : least)
    extent = ranges_.range(b).high <= most && extent->kind == Kind::Int ? b : te::min(extent, b);
  return extent;
}

}  // namespace isomer::loop
