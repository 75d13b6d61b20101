#include "loop/emitter.h"

#include <algorithm>

#include "base/arithmetic.h"
#include "te/simplify.h"

namespace isomer::loop {
namespace {

using te::Expr;
using te::Kind;

std::vector<int> variables_of(const Affine& a) {
  std::vector<int> out;
  for (const Affine::Term& t : a.terms) variables(t.atom, out);
  return out;
}

bool contains(const std::vector<int>& set, int v) { return std::find(set.begin(), set.end(), v) != set.end(); }

void drop(Item& item, const Affine& guard) {
  each_block(item, [&](Block& b) { std::erase_if(b.guards, [&](const Affine& g) { return same(g, guard); }); });
}

// Guards that every block of the item has.
std::vector<Affine> shared_guards(const Item& item) {
  std::vector<Affine> out;
  bool first = true;
  each_block(item, [&](const Block& b) {
    if (first) out = b.guards;
    first = false;
    std::erase_if(out, [&](const Affine& g) {
      return std::none_of(b.guards.begin(), b.guards.end(), [&](const Affine& o) { return same(o, g); });
    });
  });
  return out;
}

void inner_loops(const Item& item, std::vector<const Loop*>& out) {
  if (!item.is_loop()) return;
  out.push_back(&item.loop);
  for (const Item& i : item.body) inner_loops(i, out);
}

}  // namespace

Expected<Stmt> Emitter::run(const std::vector<const Item*>& items) {
  Stmts out;
  root_ = items.size() == 1;
  for (const Item* i : items) ISOMER_CHECK_OK(emit(*i, out));
  return Stmt::seq(std::move(out));
}

Substitution Emitter::bind(int var, const Expr& value) {
  Substitution outside = vars_;
  for (auto& [v, e] : vars_) e = substitute(e, {{var, value}});
  vars_[var] = value;
  return outside;
}

Expr Emitter::now(const Expr& e) const {
  const auto known = [&](const Expr& x) {
    for (const auto& [from, to] : atoms_)
      if (te::equal(x, from)) return to;
    return Expr();
  };
  Expr out = substitute(e, vars_);
  if (!atoms_.empty()) out = rebuild(out, known);
  out = te::simplify(out, axes_);
  return atoms_.empty() ? out : te::simplify(rebuild(out, known), axes_);
}

Affine Emitter::now(const Affine& a) const {
  if (vars_.empty() && atoms_.empty()) return a;
  return affine_of(now(to_expr(a)));
}

bool Emitter::in_scope(const Affine& a) const {
  const std::vector<int> used = variables_of(a);
  return std::all_of(used.begin(), used.end(), [&](int v) { return ranges_.knows(v); });
}

Expected<void> Emitter::emit(Item item, Stmts& out) {
  std::vector<Expr> conditions;
  for (const Affine& g : shared_guards(item)) {
    const Affine at = now(g);
    if (!in_scope(at)) continue;
    const Range r = ranges_.range(at);
    if (r.high < 0) return {};
    drop(item, g);
    if (r.low < 0) conditions.push_back(condition_of(at));
  }
  const bool root = root_;
  if (!conditions.empty()) root_ = false;
  Stmts inner;
  if (item.is_loop())
    ISOMER_CHECK_OK(loop(item, inner));
  else
    ISOMER_CHECK_OK(block(*item.block, inner));
  root_ = root;
  if (inner.empty()) return {};
  if (conditions.empty()) {
    out.insert(out.end(), inner.begin(), inner.end());
  } else {
    out.push_back(Stmt::branch(te::all_of(conditions), Stmt::seq(std::move(inner))));
  }
  return {};
}

Expected<void> Emitter::body(const Item& item, Stmts& out) {
  const bool root = std::exchange(root_, false);
  for (const Item& i : item.body) ISOMER_CHECK_OK(emit(i, out));
  root_ = root;
  return {};
}

Expected<void> Emitter::loop(Item& item, Stmts& out) {
  const Loop& l = item.loop;
  if (const Block* b = tile_at(item)) {
    const size_t axes = axes_.size();
    Expected<void> done = tile(item, *b, out);
    if (done.ok() || strict_) return done;
    axes_.resize(axes);
    each_block(item, [](Block& x) { x.tile.reset(); });
  }
  if (l.extent <= 0) return {};
  const bool parallel = l.kind == LoopKind::Parallel && root_;
  if (l.extent == 1 && !parallel) {
    const Substitution outside = bind(l.var, Expr(0));
    ISOMER_CHECK_OK(body(item, out));
    vars_ = outside;
    return {};
  }
  if (const auto cut = find_cut(item)) {
    ++cuts_;
    ISOMER_CHECK_OK(cut_loop(item, *cut, out));
    --cuts_;
    return {};
  }
  const Expr extent = tighten(item);
  if (parallel) return plain_loop(item, extent->kind == Kind::Int ? extent : Expr(l.extent), LoopKind::Parallel, out);
  LoopKind kind = l.kind == LoopKind::Parallel ? LoopKind::Serial : l.kind;
  if (kind == LoopKind::Vector) {
    each_block(item, [&](const Block& b) {
      for (const Affine& g : b.guards)
        if (!b.reduces() && contains(variables_of(g), l.var)) kind = LoopKind::Serial;
    });
  }
  if (extent->kind == Kind::Int || kind == LoopKind::Serial) return plain_loop(item, extent, kind, out);
  if (kind == LoopKind::Unroll) return plain_loop(item, extent, LoopKind::Serial, out);
  Stmts whole, rest;
  ISOMER_CHECK_OK(plain_loop(item, Expr(l.extent), kind, whole));
  ISOMER_CHECK_OK(plain_loop(item, extent, LoopKind::Serial, rest));
  if (whole.empty() || rest.empty()) return {};
  const Expr full = te::simplify(Expr(l.extent) <= extent, axes_);
  out.push_back(Stmt::branch(full, Stmt::seq(std::move(whole)), Stmt::seq(std::move(rest))));
  return {};
}

Expected<void> Emitter::plain_loop(Item& item, Expr extent, LoopKind kind, Stmts& out) {
  const Loop& l = item.loop;
  if (extent->kind == Kind::Int && extent->integer <= 0) return {};
  if (extent->kind == Kind::Int && extent->integer == 1 && kind != LoopKind::Parallel) {
    const Substitution outside = bind(l.var, Expr(0));
    ISOMER_CHECK_OK(body(item, out));
    vars_ = outside;
    return {};
  }
  ranges_.push(l.var, extent);
  axes_.push_back({l.var, "", Dim(l.extent)});
  if (kind == LoopKind::Vector) lanes_.push_back(l.var);
  Stmts inner;
  ISOMER_CHECK_OK(body(item, inner));
  if (kind == LoopKind::Vector) lanes_.pop_back();
  axes_.pop_back();
  ranges_.pop();
  if (inner.empty()) return {};
  out.push_back(Stmt::loop(l.var, var_expr(l)->var_name, std::move(extent), kind, Stmt::seq(std::move(inner))));
  return {};
}

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
  drop(whole, cut.guard);
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
  drop(whole, cut->guard);
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
    if (exact) drop(item, original);
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

std::vector<Expr> Emitter::place(int buffer, const std::vector<Expr>& indices, const Block& b) const {
  const Storage& s = storage_[static_cast<size_t>(buffer)];
  std::vector<Expr> out;
  for (size_t d = 0; d < indices.size(); ++d) {
    const Expr at = stored(indices[d], b);
    const bool moved = s.base[d]->kind != Kind::Int || s.base[d]->integer != 0;
    out.push_back(now(moved ? at - s.base[d] : at));
  }
  return out;
}

// Bottom-up: the indices of a read are stored ones already when the read is reached.
Expr Emitter::stored(const Expr& e, const Block& b) const {
  return rebuild(substitute(e, bindings_of(b)), [&](const Expr& x) {
    if (x->kind != Kind::Read) return Expr();
    const Storage& s = storage_[static_cast<size_t>(x->tensor)];
    te::Node n = *x;
    for (size_t d = 0; d < n.args.size(); ++d)
      if (s.base[d]->kind != Kind::Int || s.base[d]->integer != 0) n.args[d] = n.args[d] - s.base[d];
    n.tensor = buffers_[static_cast<size_t>(x->tensor)];
    return Expr::make(std::move(n));
  });
}

Expected<void> Emitter::block(const Block& b, Stmts& out) {
  std::vector<Expr> conditions;
  bool lanes = false;
  for (const Affine& g : b.guards) {
    const Affine at = now(g);
    const Range r = ranges_.range(at);
    if (r.high < 0) return {};
    if (r.low >= 0) continue;
    for (const int v : variables_of(at)) lanes |= contains(lanes_, v);
    conditions.push_back(condition_of(at));
  }
  const int buffer = buffers_[static_cast<size_t>(b.buffer)];
  if (b.prefetch) {
    if (conditions.empty()) out.push_back(Stmt::prefetch(buffer, place(b.buffer, b.indices, b)));
    return {};
  }
  Expr value = stored(b.value, b);
  if (b.reduces() && !b.where.empty())
    value = te::select(stored(b.where, b), value, identity_of(*b.combiner, value.dtype()));
  if (lanes && b.reduces() && !conditions.empty()) {
    value = te::select(te::all_of(conditions), value, identity_of(*b.combiner, value.dtype()));
    conditions.clear();
  }
  Stmt store = Stmt::store(buffer, place(b.buffer, b.indices, b), now(value), b.combiner);
  out.push_back(conditions.empty() ? std::move(store) : Stmt::branch(te::all_of(conditions), std::move(store)));
  return {};
}

}  // namespace isomer::loop
