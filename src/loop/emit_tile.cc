#include <algorithm>

#include "loop/emitter.h"
#include "te/simplify.h"

namespace isomer::loop {
namespace {

using te::Expr;
using te::Kind;

Diagnostic unfit(const Block& b, const std::string& why) {
  return Diagnostic("E-loop-nest", "the tile of " + isomer::quoted(b.name) + " cannot be written: " + why);
}

}  // namespace

const Block* Emitter::tile_at(const Item& item) const {
  const Item* inner = &item;
  while (inner->is_loop() && inner->body.size() == 1) inner = &inner->body[0];
  if (inner->is_loop() || !inner->block->tile || inner->block->tile->root != item.loop.var) return nullptr;
  return &*inner->block;
}

// Origin and strides of the box that the tile's loops walk in one buffer.
Expected<TileOperand> Emitter::operand(const Block& b, int buffer, const std::vector<Expr>& indices,
                                       const std::map<int, int64_t>& tile_loops) const {
  const std::vector<int64_t>& dims = storage_[static_cast<size_t>(buffer)].dims;
  TileOperand out;
  out.buffer = buffers_[static_cast<size_t>(buffer)];
  std::map<int, int64_t> stride;
  int64_t row = 1;
  const std::vector<Expr> at = place(buffer, indices, b);
  out.indices.resize(at.size());
  for (size_t d = at.size(); d-- > 0; row *= dims[d]) {
    Affine origin;
    const Affine form = affine_of(at[d]);
    origin.constant = form.constant;
    for (const Affine::Term& t : form.terms) {
      if (t.atom->kind == Kind::Var && tile_loops.contains(t.atom->var)) {
        stride[t.atom->var] += t.coefficient * row;
        continue;
      }
      std::vector<int> used;
      variables(t.atom, used);
      for (const int v : used)
        if (tile_loops.contains(v)) return unfit(b, "an index is no sum of its loops");
      origin.add(t.atom, t.coefficient);
    }
    out.indices[d] = to_expr(origin);
  }
  for (const std::vector<int>& loops : b.tile->axes) {
    int64_t step = 0, next = -1;
    for (size_t k = loops.size(); k-- > 0;) {
      if (tile_loops.at(loops[k]) == 1) continue;
      if (next >= 0 && stride[loops[k]] != next) return unfit(b, "the loops of one axis do not walk evenly");
      if (next < 0) step = stride[loops[k]];
      next = stride[loops[k]] * tile_loops.at(loops[k]);
    }
    out.strides.push_back(step);
  }
  return out;
}

Expected<void> Emitter::tile(const Item& item, const Block& b, Stmts& out) {
  std::map<int, int64_t> extent;  // of the tile's loops
  for (const Item* i = &item; i->is_loop(); i = &i->body[0]) extent[i->loop.var] = i->loop.extent;
  std::map<int, Expr> bound;
  for (const Affine& original : b.guards) {
    const Affine g = now(original);
    std::vector<int> inside;
    for (const auto& [v, n] : extent)
      if (uses(to_expr(g), v)) inside.push_back(v);
    const int64_t c = inside.size() == 1 ? g.coefficient(inside[0]) : 0;
    if (c >= 0) return unfit(b, "a guard is no upper bound of one of its loops");
    Affine rest = g;
    rest.add(Expr(te::Axis{inside[0], "", Dim(0)}), -c);
    const Expr e = te::simplify(te::floor_div(to_expr(rest), Expr(-c)) + Expr(1), axes_);
    if (ranges_.range(e).low >= extent[inside[0]]) continue;
    const auto it = bound.try_emplace(inside[0], Expr(extent[inside[0]])).first;
    const bool numbers = it->second->kind == Kind::Int && e->kind == Kind::Int;
    it->second = numbers ? Expr(std::min(it->second->integer, e->integer)) : te::min(it->second, e);
  }
  std::vector<Expr> extents;
  for (const std::vector<int>& loops : b.tile->axes) {
    int64_t n = 1;
    Expr e;
    for (size_t k = 0; k < loops.size(); ++k) {
      n *= extent.at(loops[k]);
      if (!bound.contains(loops[k])) continue;
      const bool alone =
          std::all_of(loops.begin(), loops.end(), [&](int v) { return v == loops[k] || extent.at(v) == 1; });
      if (!alone) return unfit(b, "a guard cuts an axis made of several loops");
      e = bound.at(loops[k]);
    }
    extents.push_back(e.empty() ? Expr(n) : e);
  }
  const size_t outside = axes_.size();
  for (const auto& [v, n] : extent) axes_.push_back({v, "", Dim(n)});
  std::vector<TileOperand> operands;
  for (const Expr& read : b.tile->operands) {
    ISOMER_TRY(TileOperand o, operand(b, read->tensor, read->args, extent));
    operands.push_back(std::move(o));
  }
  ISOMER_TRY(TileOperand result, operand(b, b.buffer, b.indices, extent));
  operands.push_back(std::move(result));
  axes_.resize(outside);
  out.push_back(Stmt::tile(b.tile->intrinsic, std::move(operands), std::move(extents)));
  return {};
}

}  // namespace isomer::loop
