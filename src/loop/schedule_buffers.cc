#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "loop/region.h"
#include "loop/schedule.h"

namespace isomer::loop {
namespace {

using te::Expr;
using te::Kind;

Expr renamed(const Expr& e, int from, int to) {
  if (e.empty()) return e;
  return rebuild(e, [&](const Expr& x) {
    if (x->kind != Kind::Read || x->tensor != from) return Expr();
    te::Node n = *x;
    n.tensor = to;
    return Expr::make(std::move(n));
  });
}

// dst[i0,i1,..] = src[i0,i1,..] in loops of its own.
Item copy_nest(Nest& nest, const std::string& name, int dst, int src) {
  const Buffer& from = nest.buffers[static_cast<size_t>(src)];
  Block b;
  b.name = name;
  b.buffer = dst;
  std::vector<Loop> loops;
  for (size_t d = 0; d < from.dims.size(); ++d) {
    Loop l;
    l.name = fmt::format("{}.i{}", name, d);
    l.extent = from.dims[d];
    const te::Axis axis{nest.next_var++, fmt::format("i{}", d), Dim(l.extent)};
    l.var = nest.next_var++;
    b.iters.push_back({axis, false, var_expr(l)});
    b.indices.push_back(axis);
    loops.push_back(std::move(l));
  }
  b.value = Expr::read(src, from.dtype, b.indices);
  return in_loops(std::move(b), std::move(loops));
}

int new_buffer(Nest& nest, const Buffer& like, std::string_view name) {
  Buffer b = like;
  b.name = name;
  b.scope = Scope::Scratch;
  b.written = true;
  nest.buffers.push_back(std::move(b));
  return static_cast<int>(nest.buffers.size()) - 1;
}

bool uses_buffer(const Item& item, int buffer, bool writes) {
  bool found = false;
  each_block(item, [&](const Block& b) { found |= writes ? b.buffer == buffer : reads(b, buffer); });
  return found;
}

struct Entry {  // of a layout: axis, axis / by or axis % by
  size_t axis = 0;
  char op = 0;
  int64_t by = 1;
};

std::optional<Entry> entry_of(const std::string& word) {
  Entry e;
  if (word.size() < 2 || word[0] != 'd') return std::nullopt;
  const char *p = word.data() + 1, *end = word.data() + word.size();
  auto r = std::from_chars(p, end, e.axis);
  if (r.ec != std::errc()) return std::nullopt;
  if (r.ptr == end) return e;
  e.op = *r.ptr;
  if (e.op != '/' && e.op != '%') return std::nullopt;
  r = std::from_chars(r.ptr + 1, end, e.by);
  if (r.ec != std::errc() || r.ptr != end || e.by < 1 || e.by > (int64_t{1} << 20)) return std::nullopt;
  return e;
}

// Every axis once as it is, or as one quotient and one remainder by the same number.
Decision complete(const std::vector<Entry>& entries, size_t rank) {
  for (size_t a = 0; a < rank; ++a) {
    int whole = 0, over = 0, rest = 0;
    int64_t by = 0;
    bool one = true;
    for (const Entry& e : entries) {
      if (e.axis != a) continue;
      ++(e.op == 0 ? whole : e.op == '/' ? over : rest);
      if (e.op) one &= by == 0 || by == e.by, by = e.by;
    }
    const bool plain = whole == 1 && over == 0 && rest == 0;
    const bool cut = whole == 0 && over == 1 && rest == 1 && one;
    if (!plain && !cut) return Decision::no("each axis stands in a layout once, or as one quotient and one remainder");
  }
  return Decision::yes();
}

}  // namespace

Decision Schedule::cache_read(std::string_view block, std::string_view buffer, std::string_view name) {
  const auto at = find_block(nest_, block);
  const int source = nest_.buffer(buffer);
  if (!at) return Decision::no("there is no block of this name");
  if (source < 0 || !reads(*item_at(nest_, *at).block, source)) return Decision::no("the block reads no such buffer");
  if (!free_name(name)) return Decision::no("the name is taken");
  if (item_at(nest_, *at).block->tile) return Decision::no("the block is a tile already");
  if (uses_buffer(nest_.roots[(*at)[0]], source, true))
    return Decision::no("the buffer is computed in the same loops; cache it before moving");
  Nest next = nest_;
  const int cache = new_buffer(next, nest_.buffers[static_cast<size_t>(source)], name);
  Block& b = *item_at(next, *at).block;
  b.value = renamed(b.value, source, cache);
  b.where = renamed(b.where, source, cache);
  Item copy = copy_nest(next, std::string(name), cache, source);
  next.roots.insert(next.roots.begin() + static_cast<std::ptrdiff_t>((*at)[0]), std::move(copy));
  return done(std::move(next), fmt::format("cache_read {} {} -> {}", block, buffer, name));
}

Decision Schedule::cache_write(std::string_view block, std::string_view name) {
  const auto at = find_block(nest_, block);
  if (!at) return Decision::no("there is no block of this name");
  const Block& old = *item_at(nest_, *at).block;
  const std::string out = std::string(block) + "_out";
  if (!free_name(name) || find_block(nest_, out)) return Decision::no("the name is taken");
  if (old.tile || old.prefetch) return Decision::no("the block is a tile already");
  int writers = 0;
  each_block(nest_, [&](const Block& b) { writers += b.buffer == old.buffer; });
  if (writers != 1) return Decision::no("another block writes the same buffer");
  if (uses_buffer(nest_.roots[(*at)[0]], old.buffer, false))
    return Decision::no("the buffer is read in the same loops; cache it before moving");
  Nest next = nest_;
  const int cache = new_buffer(next, nest_.buffers[static_cast<size_t>(old.buffer)], name);
  item_at(next, *at).block->buffer = cache;
  Item copy = copy_nest(next, out, old.buffer, cache);
  next.roots.insert(next.roots.begin() + static_cast<std::ptrdiff_t>((*at)[0]) + 1, std::move(copy));
  return done(std::move(next), fmt::format("cache_write {} -> {}", block, name));
}

Decision Schedule::transform_layout(std::string_view buffer, const Names& words) {
  const int b = nest_.buffer(buffer);
  if (b < 0) return Decision::no("there is no buffer of this name");
  const Buffer old = nest_.buffers[static_cast<size_t>(b)];
  std::vector<Entry> entries;
  for (const std::string& w : words) {
    const auto e = entry_of(w);
    if (!e || e->axis >= old.dims.size()) return Decision::no("an entry of a layout is dN, dN/c or dN%c of an axis");
    entries.push_back(*e);
  }
  if (const Decision d = complete(entries, old.dims.size()); !d) return d;
  bool tiled = false;
  each_block(nest_, [&](const Block& x) { tiled |= x.tile && (x.buffer == b || reads(x, b)); });
  if (tiled) return Decision::no("a tile uses the buffer already");
  Nest next = nest_;
  Buffer& now = next.buffers[static_cast<size_t>(b)];
  now.dims.clear();
  for (const Entry& e : entries) {
    const int64_t n = old.dims[e.axis];
    if (e.op && n % e.by != 0 && b >= nest_.inputs && b < nest_.argument_count())
      return Decision::no("an output would have elements that nothing writes");
    now.dims.push_back(e.op == 0 ? n : e.op == '%' ? e.by : (n + e.by - 1) / e.by);
  }
  if (now.elements() / 16 > old.elements() + 4096) return Decision::no("the buffer would be mostly padding");
  const auto moved = [&](const std::vector<Expr>& at) {
    std::vector<Expr> out;
    for (const Entry& e : entries) {
      const Expr& i = at[e.axis];
      out.push_back(e.op == 0 ? i : e.op == '/' ? te::floor_div(i, Expr(e.by)) : te::floor_mod(i, Expr(e.by)));
    }
    return out;
  };
  const auto rewritten = [&](const Expr& e) {
    if (e.empty()) return e;
    return rebuild(e, [&](const Expr& x) {
      return x->kind == Kind::Read && x->tensor == b ? Expr::read(b, x.dtype(), moved(x->args)) : Expr();
    });
  };
  each_block(next, [&](Block& x) {
    x.value = rewritten(x.value);
    x.where = rewritten(x.where);
    for (Expr& i : x.indices) i = rewritten(i);
    if (x.buffer == b) x.indices = moved(x.indices);
  });
  std::string line = fmt::format("transform_layout {} ->", buffer);
  for (const std::string& w : words) line += " " + w;
  return done(std::move(next), std::move(line));
}

Decision Schedule::prefetch(std::string_view block, std::string_view buffer, std::string_view loop) {
  const auto at = find_block(nest_, block);
  const auto to = find_loop(nest_, loop);
  const int source = nest_.buffer(buffer);
  if (!at) return Decision::no("there is no block of this name");
  if (!to || to->size() >= at->size() || !std::equal(to->begin(), to->end(), at->begin()))
    return Decision::no("the loop is not around the block");
  if (source < 0 || source >= nest_.argument_count()) return Decision::no("only arguments are worth a prefetch");
  Nest next = nest_;
  Item& target = item_at(next, *to);
  if (target.loop.kind == LoopKind::Vector) return Decision::no("the loop is a vector");
  std::vector<const Loop*> around = loops_around(next, *at);
  const std::vector<const Loop*> outside = loops_around(next, *to);
  const Block& reader = *item_at(next, *at).block;
  if (reader.tile && reader.tile->root == target.loop.var) return Decision::no("the loop is part of a tile");
  std::optional<std::vector<Expr>> first;
  each_read(reader.value, [&](const te::Node& n) {
    if (!first && n.tensor == source) first = n.args;
  });
  if (!first) return Decision::no("the block reads no such buffer");
  Substitution start;
  for (size_t k = outside.size(); k < around.size(); ++k) start.emplace(around[k]->var, Expr(0));
  start[target.loop.var] = var_expr(target.loop) + Expr(1);
  Block p;
  p.prefetch = true;
  p.name = fmt::format("{}_prefetch_{}", block, buffer);
  if (find_block(next, p.name)) return Decision::no("there is such a prefetch already");
  p.buffer = source;
  for (size_t d = 0; d < first->size(); ++d) {
    if (has_read((*first)[d])) return Decision::no("the place is read from a buffer");
    const Expr index = substitute(substitute((*first)[d], bindings_of(reader)), start);
    const te::Axis axis{next.next_var++, fmt::format("p{}", d),
                        Dim(nest_.buffers[static_cast<size_t>(source)].dims[d])};
    p.iters.push_back({axis, false, index});
    p.indices.push_back(axis);
    p.guards.push_back(affine_of(index));
    p.guards.push_back(affine_of(Expr(axis.extent.value() - 1) - index));
  }
  p.guards.push_back(affine_of(Expr(target.loop.extent - 2) - var_expr(target.loop)));
  Item item;
  item.block = std::move(p);
  target.body.insert(target.body.begin(), std::move(item));
  return done(std::move(next), fmt::format("prefetch {} {} {}", block, buffer, loop));
}

}  // namespace isomer::loop
