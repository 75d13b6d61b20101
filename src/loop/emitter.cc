#include "loop/emitter.h"

#include <algorithm>

#include "base/contains.h"
#include "loop/guards.h"
#include "te/simplify.h"

namespace isomer::loop {

using te::Expr;
using te::Kind;

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
    drop_guard(item, g);
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
