#include <fmt/format.h>

#include <algorithm>

#include "base/contains.h"
#include "loop/guards.h"
#include "loop/region.h"
#include "loop/schedule.h"

namespace isomer::loop {
namespace {

using te::Expr;

std::string short_name(const Loop& l) { return l.name.substr(l.name.rfind('.') + 1); }

// The block that takes the partial results together, in copies of the spatial loops from `first` on.
Item final_nest(Nest& nest, const Block& whole, int partial, const Loop& factor, const std::vector<const Loop*>& around,
                size_t first) {
  const std::vector<int> reducing = reduce_loops(whole), spatial = spatial_loops(whole);
  Block b;
  b.name = whole.name;
  b.buffer = whole.buffer;
  b.indices = whole.indices;
  b.combiner = whole.combiner;
  b.init = true;
  for (const IterVar& i : whole.iters)
    if (!i.reduce) b.iters.push_back(i);
  for (const Affine& g : whole.guards)
    if (!uses_any(g, reducing)) b.guards.push_back(g);
  Loop last;
  last.var = nest.next_var++;
  last.name = b.name + "." + short_name(factor);
  last.extent = factor.extent;
  const te::Axis axis{nest.next_var++, short_name(factor), Dim(factor.extent)};
  b.iters.push_back({axis, true, var_expr(last)});
  std::vector<Expr> at = b.indices;
  at.push_back(axis);
  b.value = Expr::read(partial, whole.value.dtype(), at);

  Item item;
  item.block = std::move(b);
  const auto wrap = [&](Loop l) {
    Item outer;
    outer.loop = std::move(l);
    outer.body.push_back(std::move(item));
    item = std::move(outer);
  };
  wrap(std::move(last));
  for (size_t k = around.size(); k-- > first;) {
    if (!contains(spatial, around[k]->var)) continue;
    Loop copy = *around[k];
    copy.var = nest.next_var++;
    copy.name = whole.name + "." + short_name(*around[k]);
    copy.kind = LoopKind::Serial;
    substitute_loops(item, {{around[k]->var, var_expr(copy)}});
    wrap(std::move(copy));
  }
  return item;
}

// Turns the block into the partial one: loops of its reduction become iteration variables of their own, and the
// factored one is a spatial one and the last index.
void make_partial(Nest& nest, Block& b, int buffer, std::string_view name, const Loop& factor,
                  const std::vector<const Loop*>& around) {
  const std::vector<int> reducing = reduce_loops(b);
  Substitution inner;
  std::vector<IterVar> iters, loops;
  for (const IterVar& i : b.iters)
    if (!i.reduce) iters.push_back(i);
  for (const Loop* l : around) {
    if (!contains(reducing, l->var)) continue;
    const te::Axis axis{nest.next_var++, short_name(*l), Dim(l->extent)};
    const bool own = l->var == factor.var;
    inner.emplace(l->var, axis);
    (own ? iters : loops).push_back({axis, !own, var_expr(*l)});
    if (own) b.indices.push_back(axis);
  }
  Substitution points;
  for (const IterVar& i : b.iters)
    if (i.reduce) points.emplace(i.axis.id, substitute(i.binding, inner));
  b.value = substitute(b.value, points);
  b.where = substitute(b.where, points);
  // What cut the reduction says from now on which points count: all partial results are there to be read.
  std::vector<Affine> kept;
  for (const Affine& g : b.guards) {
    if (!uses_any(g, reducing)) {
      kept.push_back(g);
      continue;
    }
    const Expr counts = condition_of(substitute(g, inner));
    b.where = b.where.empty() ? counts : te::select(counts, b.where, te::truth(false));
  }
  b.guards = std::move(kept);
  iters.insert(iters.end(), loops.begin(), loops.end());
  b.iters = std::move(iters);
  b.buffer = buffer;
  b.name = name;
}

Decision factorable(const Block& b, const Loop& factor) {
  if (!b.reduces() || !contains(reduce_loops(b), factor.var)) return Decision::no("the loop carries no reduction");
  if (!b.init) return Decision::no("the reduction has been decomposed; factor it before");
  if (b.tile) return Decision::no("the block is a tile already");
  if (factor.kind != LoopKind::Serial) return Decision::no("the loop has a kind already; factor it before");
  return Decision::yes();
}

bool too_large(const Buffer& b) {
  int64_t elements = 1;
  for (const int64_t d : b.dims)
    if (__builtin_mul_overflow(elements, d, &elements) || elements > int64_t{1} << 36) return true;
  return false;
}

Path prefix(const Path& path, size_t steps) {
  return Path(path.begin(), path.begin() + static_cast<std::ptrdiff_t>(steps));
}

}  // namespace

Decision Schedule::rfactor(std::string_view loop, std::string_view name) {
  const auto to = find_loop(nest_, loop);
  if (!to) return Decision::no("there is no loop of this name");
  std::string block;
  int blocks = 0;
  each_block(item_at(nest_, *to), [&](const Block& b) { block = b.name, ++blocks; });
  if (blocks != 1) return Decision::no("the loop holds more than one block");
  const Path at = *find_block(nest_, block);
  Nest next = nest_;
  Block& b = *item_at(next, at).block;
  const Loop factor = item_at(next, *to).loop;
  if (const Decision d = factorable(b, factor); !d) return d;
  if (!free_name(name)) return Decision::no("the name is taken");
  const std::vector<int> reducing = reduce_loops(b);
  const std::vector<const Loop*> around = loops_around(next, at);
  size_t first = around.size();
  for (size_t k = around.size(); k-- > 0;)
    if (contains(reducing, around[k]->var)) first = k;
  for (size_t k = first; k + 1 < at.size(); ++k)
    if (item_at(next, prefix(at, k + 1)).body.size() != 1)
      return Decision::no("something else stands inside of the reduction's loops");

  Buffer partial = next.buffers[static_cast<size_t>(b.buffer)];
  partial.name = name;
  partial.scope = Scope::Scratch;
  partial.written = true;
  partial.dims.push_back(factor.extent);
  if (too_large(partial)) return Decision::no("the partial results would be too large");
  const int buffer = static_cast<int>(next.buffers.size());
  Item last = final_nest(next, b, buffer, factor, around, first);
  make_partial(next, b, buffer, name, factor, around);
  // Loops from the first of the reduction on belong to the partial block now.
  for (size_t k = first; k + 1 < at.size(); ++k) {
    Item& item = item_at(next, prefix(at, k + 1));
    item.loop.name = std::string(name) + "." + short_name(item.loop);
  }
  next.buffers.push_back(std::move(partial));
  const Path top = prefix(at, first + 1);
  std::vector<Item>& among = siblings(next, top);
  among.insert(among.begin() + static_cast<std::ptrdiff_t>(top.back()) + 1, std::move(last));
  return done(std::move(next), fmt::format("rfactor {} -> {}", loop, name));
}

Decision Schedule::decompose_reduction(std::string_view block, std::string_view loop) {
  const auto at = find_block(nest_, block);
  const auto to = find_loop(nest_, loop);
  if (!at) return Decision::no("there is no block of this name");
  if (!to || to->size() >= at->size() || !std::equal(to->begin(), to->end(), at->begin()))
    return Decision::no("the loop is not around the block");
  const Block& b = *item_at(nest_, *at).block;
  if (!b.init) return Decision::no("the block is no reduction that is still whole");
  if (find_block(nest_, b.name + "_init")) return Decision::no("the name of the new block is taken");
  const std::vector<int> reducing = reduce_loops(b);
  const std::vector<const Loop*> around = loops_around(nest_, *at);
  for (size_t k = 0; k < around.size(); ++k) {
    const bool outside = k + 1 < to->size();
    if (outside && contains(reducing, around[k]->var))
      return Decision::no("a loop of the reduction stands around, and would start it again");
    if (!outside && !contains(reducing, around[k]->var) && !separates(nest_, *at, *around[k]))
      return Decision::no("a loop repeats the block, and would not start it again");
    const bool inside_tile = b.tile && around[k]->var == b.tile->root && k + 1 < to->size();
    if (inside_tile) return Decision::no("the loop is part of a tile");
    if (!outside && around[k]->kind == LoopKind::Parallel)
      return Decision::no("nothing can stand in front of a parallel loop");
  }
  Nest next = nest_;
  decompose(next, *at, to->size());
  return done(std::move(next), fmt::format("decompose_reduction {} {}", block, loop));
}

}  // namespace isomer::loop
