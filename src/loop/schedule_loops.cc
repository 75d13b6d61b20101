#include <fmt/format.h>

#include <algorithm>

#include "base/contains.h"
#include "loop/region.h"
#include "loop/schedule.h"

namespace isomer::loop {
namespace {

using te::Expr;

constexpr int64_t kMostLanes = 4095;
constexpr int64_t kMostCopies = 4096;  // of one statement by unrolled loops in one another
constexpr size_t kMostLoops = 64;      // around one block
constexpr const char* kNoLoop = "there is no loop of this name";

std::string sibling_name(const Loop& l, std::string_view name) {
  return l.name.substr(0, l.name.rfind('.') + 1) + std::string(name);
}

bool in_tile(const Item& item) {
  bool found = false;
  each_block(item, [&](const Block& b) {
    if (!b.tile) return;
    for (const auto& axis : b.tile->axes) found |= contains(axis, item.loop.var);
  });
  return found;
}

size_t height(const Item& item) {
  size_t most = 0;
  for (const Item& i : item.body) most = std::max(most, height(i));
  return most + 1;
}
size_t depth_at(const Nest& nest, const Path& path) { return path.size() + height(item_at(nest, path)); }

int64_t copies_inside(const Item& item) {
  int64_t most = 1;
  for (const Item& i : item.body) most = std::max(most, copies_inside(i));
  return item.is_loop() && item.loop.kind == LoopKind::Unroll ? most * std::max<int64_t>(item.loop.extent, 1) : most;
}

Decision changeable(const Item& item) {
  if (item.loop.kind != LoopKind::Serial) return Decision::no("the loop has a kind already; change its shape before");
  if (in_tile(item)) return Decision::no("the loop is part of a tile");
  return Decision::yes();
}

std::vector<bool> private_buffers(const Nest& nest, const Item& item) {
  std::vector<int> inside(nest.buffers.size()), all(nest.buffers.size());
  const auto count = [](std::vector<int>& uses, const Block& b) {
    const auto look = [&](const te::Node& n) { ++uses[static_cast<size_t>(n.tensor)]; };
    ++uses[static_cast<size_t>(b.buffer)];
    each_read(b.value, look);
    each_read(b.where, look);
    for (const Expr& i : b.indices) each_read(i, look);
  };
  each_block(item, [&](const Block& b) { count(inside, b); });
  each_block(nest, [&](const Block& b) { count(all, b); });
  std::vector<bool> own(nest.buffers.size());
  for (size_t b = 0; b < own.size(); ++b) own[b] = inside[b] == all[b] && static_cast<int>(b) >= nest.argument_count();
  return own;
}

// A loop that repeats a reduction starts it again each time, and must stay outside of the reduction's own loops.
bool restarts(const Nest& nest, const std::vector<const Loop*>& loops, const Item& inside) {
  bool found = false;
  each_block(inside, [&](const Block& b) {
    if (!b.reduces() || found) return;
    const std::vector<int> reducing = reduce_loops(b);
    bool own = false, repeats = false;
    for (const Loop* l : loops) {
      const bool reduce = contains(reducing, l->var);
      own |= reduce;
      repeats |= !reduce && !separates(nest, *find_block(nest, b.name), *l);
    }
    found |= own && repeats;
  });
  return found;
}

// Whether iterations of the loop write different elements, and read nothing that another iteration writes.
Decision independent(const Nest& nest, const Item& item) {
  const std::vector<bool> own = private_buffers(nest, item);
  const std::vector<std::vector<Access>> accesses = accesses_of(nest, {&item});
  for (size_t b = 0; b < accesses.size(); ++b) {
    if (own[b]) continue;
    std::vector<const Access*> writes;
    for (const Access& a : accesses[b]) {
      if (!a.write) continue;
      writes.push_back(&a);
      if (contains(reduce_loops(*a.block), item.loop.var)) return Decision::no("the loop carries a reduction");
    }
    if (!writes.empty() && !separates(region_of(writes, 1, nest.buffers[b].dims), item.loop))
      return Decision::no("iterations of the loop would write the same elements");
  }
  return Decision::yes();
}

}  // namespace

Decision Schedule::split(std::string_view name, int64_t factor, std::string_view outer, std::string_view inner) {
  const auto path = find_loop(nest_, name);
  if (!path) return Decision::no(kNoLoop);
  if (factor < 1) return Decision::no("a factor is at least 1");
  Nest next = nest_;
  Item& item = item_at(next, *path);
  if (const Decision d = changeable(item); !d) return d;
  const Loop old = item.loop;
  if (factor > std::max<int64_t>(old.extent, 4096)) return Decision::no("the factor is larger than the loop");
  if (depth_at(next, *path) >= kMostLoops) return Decision::no("the nest would be too deep");
  Loop low = old, high = old;
  high.name = sibling_name(old, outer);
  low.name = sibling_name(old, inner);
  item.loop.name.clear();
  if (outer == inner || !free_loop_name(next, outer, high.name) || !free_loop_name(next, inner, low.name))
    return Decision::no("the names of the new loops are taken");
  high.var = next.next_var++;
  low.var = next.next_var++;
  high.extent = (old.extent + factor - 1) / factor;
  low.extent = factor;
  const Expr whole = var_expr(high) * Expr(factor) + var_expr(low);
  substitute_loops(item, {{old.var, whole}});
  if (old.extent % factor != 0) {
    const Affine guard = affine_of(Expr(old.extent - 1) - whole);
    each_block(item, [&](Block& b) { b.guards.push_back(guard); });
  }
  Item inside;
  inside.loop = low;
  inside.body = std::move(item.body);
  item.loop = high;
  item.body.clear();
  item.body.push_back(std::move(inside));
  return done(std::move(next), fmt::format("split {} {} -> {} {}", name, factor, outer, inner));
}

Decision Schedule::tile(std::string_view a, std::string_view b, int64_t factor_a, int64_t factor_b, std::string_view a0,
                        std::string_view b0, std::string_view a1, std::string_view b1) {
  Schedule trial = *this;
  const auto full = [](std::string_view loop, std::string_view name) {
    return std::string(loop.substr(0, loop.rfind('.') + 1)) + std::string(name);
  };
  if (const Decision d = trial.split(a, factor_a, a0, a1); !d) return d;
  if (const Decision d = trial.split(b, factor_b, b0, b1); !d) return d;
  if (const Decision d = trial.reorder({full(a, a0), full(b, b0), full(a, a1), full(b, b1)}); !d) return d;
  return done(trial.nest_, fmt::format("tile {} {} {} {} -> {} {} {} {}", a, b, factor_a, factor_b, a0, b0, a1, b1));
}

Decision Schedule::fuse(std::string_view a, std::string_view b, std::string_view name) {
  const auto path = find_loop(nest_, a);
  if (!path) return Decision::no(kNoLoop);
  Nest next = nest_;
  Item& outer = item_at(next, *path);
  if (outer.body.size() != 1 || !outer.body[0].is_loop() || outer.body[0].loop.name != b)
    return Decision::no("the second loop is not all that the first one holds");
  if (const Decision d = changeable(outer); !d) return d;
  if (const Decision d = changeable(outer.body[0]); !d) return d;
  const Loop la = outer.loop, lb = outer.body[0].loop;
  bool mixed = false;
  each_block(outer, [&](const Block& x) {
    const std::vector<int> r = reduce_loops(x);
    mixed |= contains(r, la.var) != contains(r, lb.var);
  });
  if (mixed) return Decision::no("one of the loops carries a reduction and the other does not");
  int64_t extent;
  if (__builtin_mul_overflow(la.extent, lb.extent, &extent)) return Decision::no("the loop would be too long");
  Loop fused = la;
  fused.name = sibling_name(la, name);
  outer.loop.name.clear();
  outer.body[0].loop.name.clear();
  if (!free_loop_name(next, name, fused.name)) return Decision::no("the name of the new loop is taken");
  fused.var = next.next_var++;
  fused.extent = extent;
  const int64_t by = std::max<int64_t>(lb.extent, 1);
  const Expr v = var_expr(fused);
  substitute_loops(outer, {{la.var, by == 1 ? v : te::floor_div(v, Expr(by))},
                           {lb.var, by == 1 ? Expr(0) : te::floor_mod(v, Expr(by))}});
  std::vector<Item> body = std::move(outer.body[0].body);
  outer.body = std::move(body);
  outer.loop = std::move(fused);
  return done(std::move(next), fmt::format("fuse {} {} -> {}", a, b, name));
}

Decision Schedule::reorder(const Names& names) {
  std::vector<Path> paths;
  for (const std::string& n : names) {
    const auto path = find_loop(nest_, n);
    if (!path) return Decision::no(kNoLoop);
    paths.push_back(*path);
  }
  if (names.size() < 2) return Decision::no("a new order needs two loops at least");
  std::vector<Path> places = paths;
  std::sort(places.begin(), places.end(), [](const Path& x, const Path& y) { return x.size() < y.size(); });
  for (size_t k = 0; k + 1 < places.size(); ++k)
    if (places[k].size() == places[k + 1].size() ||
        !std::equal(places[k].begin(), places[k].end(), places[k + 1].begin()))
      return Decision::no("the loops do not stand in one another");
  for (size_t n = places[0].size(); n < places.back().size(); ++n) {
    const Path up(places.back().begin(), places.back().begin() + static_cast<std::ptrdiff_t>(n));
    if (item_at(nest_, up).body.size() != 1)
      return Decision::no("something else stands between the loops, and would run in another order");
  }
  Nest next = nest_;
  std::vector<Loop> loops;
  for (const Path& p : paths) {
    const Item& item = item_at(next, p);
    if (item.loop.kind != LoopKind::Serial && item.loop.kind != LoopKind::Unroll)
      return Decision::no("a parallel or vector loop keeps its place");
    if (in_tile(item)) return Decision::no("the loop is part of a tile");
    loops.push_back(item.loop);
  }
  std::vector<const Loop*> moved;
  for (const Path& p : paths) moved.push_back(&item_at(nest_, p).loop);
  if (restarts(nest_, moved, item_at(nest_, places[0])))
    return Decision::no("one of the loops repeats a reduction of another, and must stay around it");
  for (size_t k = 0; k < places.size(); ++k) item_at(next, places[k]).loop = loops[k];
  std::string line = "reorder";
  for (const std::string& n : names) line += " " + n;
  return done(std::move(next), std::move(line));
}

Decision Schedule::vectorize(std::string_view name) {
  const auto path = find_loop(nest_, name);
  if (!path) return Decision::no(kNoLoop);
  Nest next = nest_;
  Item& item = item_at(next, *path);
  if (const Decision d = changeable(item); !d) return d;
  if (item.loop.extent > kMostLanes) return Decision::no("the loop is too long for one vector; split it");
  for (const Item& i : item.body)
    if (i.is_loop()) return Decision::no("a vector loop holds blocks only");
  if (item.body.size() > 1) {
    const std::vector<bool> own = private_buffers(next, item);
    if (std::find(own.begin(), own.end(), true) != own.end())
      return Decision::no("an intermediate of one iteration lives inside the loop");
  }
  Decision answer = Decision::yes();
  each_block(item, [&](const Block& b) {
    const bool reduce = contains(reduce_loops(b), item.loop.var);
    if (b.prefetch) answer = Decision::no("a prefetch stands in the loop");
    if (reduce && !b.reduces()) answer = Decision::no("a reduction without a combiner cannot be taken across lanes");
    if (!reduce && !separates(nest_, *find_block(nest_, b.name), item.loop))
      answer = Decision::no("iterations of the loop would write the same elements");
  });
  if (!answer) return answer;
  item.loop.kind = LoopKind::Vector;
  return done(std::move(next), fmt::format("vectorize {}", name));
}

Decision Schedule::unroll(std::string_view name) {
  const auto path = find_loop(nest_, name);
  if (!path) return Decision::no(kNoLoop);
  Nest next = nest_;
  Item& item = item_at(next, *path);
  if (const Decision d = changeable(item); !d) return d;
  if (item.loop.extent > kMostLanes) return Decision::no("the loop is too long to be unrolled; split it");
  item.loop.kind = LoopKind::Unroll;
  int64_t copies = copies_inside(item);
  for (const Loop* l : loops_around(next, *path))
    if (l->kind == LoopKind::Unroll) copies *= std::max<int64_t>(l->extent, 1);
  if (copies > kMostCopies) return Decision::no("unrolled loops in one another would make too much code");
  return done(std::move(next), fmt::format("unroll {}", name));
}

Decision Schedule::parallel(std::string_view name) {
  const auto path = find_loop(nest_, name);
  if (!path) return Decision::no(kNoLoop);
  if (path->size() != 1) return Decision::no("only a loop at the root can be parallel");
  Nest next = nest_;
  Item& item = item_at(next, *path);
  if (const Decision d = changeable(item); !d) return d;
  if (const Decision d = independent(next, item); !d) return d;
  item.loop.kind = LoopKind::Parallel;
  return done(std::move(next), fmt::format("parallel {}", name));
}

Decision Schedule::bind(std::string_view name, std::string_view axis) {
  Schedule trial = *this;
  const Decision d = axis == "task"   ? trial.parallel(name)
                     : axis == "lane" ? trial.vectorize(name)
                                      : Decision::no("the machine has no such axis; there are task and lane");
  if (!d) return d;
  return done(trial.nest_, fmt::format("bind {} {}", name, axis));
}

Decision Schedule::annotate(std::string_view name, std::string_view key, std::string_view value) {
  const auto path = find_loop(nest_, name);
  if (!path) return Decision::no(kNoLoop);
  Nest next = nest_;
  item_at(next, *path).loop.notes.insert_or_assign(std::string(key), std::string(value));
  return done(std::move(next), fmt::format("annotate {} {} {}", name, key, value));
}

}  // namespace isomer::loop
