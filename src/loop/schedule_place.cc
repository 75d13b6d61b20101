#include <fmt/format.h>

#include <algorithm>

#include "loop/region.h"
#include "loop/schedule.h"

namespace isomer::loop {
namespace {

using te::Expr;
using te::Kind;

bool starts_with(const Path& path, const Path& prefix) {
  return path.size() >= prefix.size() && std::equal(prefix.begin(), prefix.end(), path.begin());
}

// Position of the iteration variable that an index is, plainly.
std::optional<size_t> plain_iter(const Block& b, const Expr& index) {
  if (index->kind != Kind::Var) return std::nullopt;
  for (size_t k = 0; k < b.iters.size(); ++k)
    if (b.iters[k].axis.id == index->var) return k;
  return std::nullopt;
}

int writers(const Nest& nest, int buffer) {
  int n = 0;
  each_block(nest, [&](const Block& b) { n += !b.prefetch && b.buffer == buffer; });
  return n;
}

// Takes the block out, with the loops that hold nothing else then.
Block taken_out(Nest& nest, Path path) {
  Block b = std::move(*item_at(nest, path).block);
  for (;;) {
    std::vector<Item>& among = siblings(nest, path);
    among.erase(among.begin() + static_cast<std::ptrdiff_t>(path.back()));
    path.pop_back();
    const bool holds_more =
        path.empty() || std::any_of(item_at(nest, path).body.begin(), item_at(nest, path).body.end(),
                                    [](const Item& i) { return i.is_loop() || !i.block->prefetch; });
    if (holds_more) return b;
  }
}

// Where the iterations of a block start and how many there are, when loops outside stand still.
using Sides = std::vector<Side>;

// The block in fresh loops, one for each iteration variable; guards keep it inside of its space.
Item in_loops(Nest& nest, Block b, const Sides& sides, const std::vector<const Loop*>& around) {
  b.guards.clear();
  Ranges ranges;
  for (const Loop* l : around) ranges.push(l->var, l->extent);
  std::vector<Loop> loops;
  for (size_t k = 0; k < b.iters.size(); ++k) {
    IterVar& i = b.iters[k];
    Loop l;
    l.var = nest.next_var++;
    l.name = b.name + "." + i.axis.name;
    for (int n = 1; std::any_of(loops.begin(), loops.end(), [&](const Loop& o) { return o.name == l.name; }); ++n)
      l.name = fmt::format("{}.{}_{}", b.name, i.axis.name, n);
    l.extent = sides[k].extent;
    Affine at = sides[k].base;
    at.add(var_expr(l), 1);
    i.binding = to_expr(at);
    ranges.push(l.var, l.extent);
    const Range r = ranges.range(at);
    const int64_t last = i.axis.extent.value() - 1;
    if (r.low < 0) b.guards.push_back(at);
    if (r.high > last) b.guards.push_back(add(Affine{last, {}}, at, -1));
    loops.push_back(std::move(l));
  }
  return in_loops(std::move(b), std::move(loops));
}

bool blocked(const Item& loop) { return loop.loop.kind == LoopKind::Vector || loop.loop.kind == LoopKind::Unroll; }

Decision movable(const Nest& nest, const Block& b) {
  if (b.tile) return Decision::no("the block is a tile already");
  if (b.prefetch) return Decision::no("a prefetch keeps its place");
  if (writers(nest, b.buffer) != 1)
    return Decision::no("another block writes the same buffer; move before decomposing");
  return Decision::yes();
}

bool in_tile(const Item& target, const std::vector<const Loop*>& loops) {
  bool found = false;
  each_block(target, [&](const Block& x) {
    if (!x.tile) return;
    for (const auto& axis : x.tile->axes)
      for (const Loop* l : loops) found |= std::find(axis.begin(), axis.end(), l->var) != axis.end();
  });
  return found;
}

struct Move {
  Path from, to;
  const Item* target = nullptr;
  const Block* block = nullptr;
  std::vector<const Loop*> around;         // the target, and what stands around it
  std::vector<std::vector<Access>> under;  // accesses under the target
};

Decision find_move(const Nest& nest, std::string_view block, std::string_view loop, Move& m) {
  const auto from = find_block(nest, block);
  const auto to = find_loop(nest, loop);
  if (!from) return Decision::no("there is no block of this name");
  if (!to) return Decision::no("there is no loop of this name");
  if (starts_with(*from, *to)) return Decision::no("the block stands under the loop already");
  m.from = *from;
  m.to = *to;
  m.target = &item_at(nest, *to);
  m.block = &*item_at(nest, *from).block;
  if (const Decision d = movable(nest, *m.block); !d) return d;
  if (blocked(*m.target)) return Decision::no("the loop is a vector or unrolled");
  m.around = loops_around(nest, *to);
  m.under = accesses_of(nest, {m.target}, m.around);
  m.around.push_back(&m.target->loop);
  if (in_tile(*m.target, m.around)) return Decision::no("the loop is part of a tile");
  return Decision::yes();
}

std::vector<const Access*> reading(const std::vector<std::vector<Access>>& all, int buffer) {
  std::vector<const Access*> out;
  for (const Access& a : all[static_cast<size_t>(buffer)])
    if (!a.write) out.push_back(&a);
  return out;
}

Sides whole_space(const Block& b) {
  Sides sides(b.iters.size());
  for (size_t k = 0; k < sides.size(); ++k) sides[k].extent = b.iters[k].axis.extent.value();
  return sides;
}

// The iterations of the block that its readers under the loop need.
Decision needed(const Nest& nest, const Move& m, Sides& sides) {
  const Block& b = *m.block;
  std::vector<const Item*> roots;
  for (const Item& i : nest.roots) roots.push_back(&i);
  const std::vector<const Access*> needs = reading(m.under, b.buffer);
  if (needs.empty()) return Decision::no("nothing under the loop reads what the block computes");
  if (needs.size() != reading(accesses_of(nest, roots), b.buffer).size())
    return Decision::no("a consumer outside of the loop needs what the block computes");
  const std::vector<int64_t>& dims = nest.buffers[static_cast<size_t>(b.buffer)].dims;
  const Sides region = region_of(needs, m.around.size(), dims);
  if (b.buffer < nest.argument_count() && !tiles(region, m.around, dims))
    return Decision::no("the block's buffer is an output, and iterations of the loop do not divide it evenly");
  sides = whole_space(b);
  for (size_t d = 0; d < dims.size(); ++d) {
    const auto k = plain_iter(b, b.indices[d]);
    if (!k) return Decision::no("the block's buffer has a layout of its own; move before transforming it");
    sides[*k] = region[d];
  }
  return Decision::yes();
}

// The iterations of the block whose operands an iteration of the loop completes.
class Completed {
 public:
  Completed(const Nest& nest, const Move& m)
      : nest_(nest), m_(m), sides_(whole_space(*m.block)), known_(sides_.size()) {}

  Decision run(Sides& sides) {
    const auto look = [&](const te::Node& read) {
      if (answer_) answer_ = part(read);
    };
    each_read(m_.block->value, look);
    each_read(m_.block->where, look);
    if (!answer_) return answer_;
    if (!any_) return Decision::no("the block reads nothing that is computed under the loop");
    Sides spatial;
    std::vector<int64_t> extents;
    for (size_t k = 0; k < sides_.size(); ++k) {
      if (m_.block->iters[k].reduce) continue;
      spatial.push_back(sides_[k]);
      extents.push_back(m_.block->iters[k].axis.extent.value());
    }
    if (!tiles(spatial, m_.around, extents))
      return Decision::no("iterations of the loop do not divide the block's elements evenly");
    sides = sides_;
    return Decision::yes();
  }

 private:
  Decision part(const te::Node& read) {
    std::vector<const Access*> made;
    for (const Access& a : m_.under[static_cast<size_t>(read.tensor)]) {
      if (!a.write) continue;
      made.push_back(&a);
      const std::vector<int> r = reduce_loops(*a.block);
      for (const Loop* l : m_.around)
        if (std::find(r.begin(), r.end(), l->var) != r.end())
          return Decision::no("a reduction that the block reads is not complete after an iteration of the loop");
    }
    if (made.empty()) return Decision::yes();
    any_ = true;
    const Block& b = *m_.block;
    const std::vector<int64_t>& dims = nest_.buffers[static_cast<size_t>(read.tensor)].dims;
    const Sides region = region_of(made, m_.around.size(), dims);
    for (size_t d = 0; d < dims.size(); ++d) {
      if (region[d].base.terms.empty() && region[d].extent == dims[d]) continue;
      const auto k = plain_iter(b, read.args[d]);
      if (!k) return Decision::no("the block reads other elements than the loop completes");
      if (known_[*k] && (sides_[*k].extent != region[d].extent || !same(sides_[*k].base, region[d].base)))
        return Decision::no("two parts of what the block reads are completed in different pieces");
      if (b.iters[*k].reduce) return Decision::no("the block reduces over elements that other iterations complete");
      known_[*k] = true;
      sides_[*k] = region[d];
    }
    return Decision::yes();
  }

  const Nest& nest_;
  const Move& m_;
  Sides sides_;
  std::vector<bool> known_;
  Decision answer_ = Decision::yes();
  bool any_ = false;
};

}  // namespace

Decision Schedule::compute_at(std::string_view block, std::string_view loop) {
  Move m;
  Sides sides;
  if (const Decision d = find_move(nest_, block, loop, m); !d) return d;
  if (const Decision d = needed(nest_, m, sides); !d) return d;
  Nest next = nest_;
  Item item = in_loops(next, *m.block, sides, m.around);
  taken_out(next, m.from);
  const auto to = find_loop(next, loop);  // the path may have shifted
  if (!to) return Decision::no("the loop is gone with the block");
  std::vector<Item>& body = item_at(next, *to).body;
  const auto reads_it = [&](const Item& i) {
    bool found = false;
    each_block(i, [&](const Block& x) { found |= reads(x, m.block->buffer); });
    return found;
  };
  body.insert(std::find_if(body.begin(), body.end(), reads_it), std::move(item));
  return done(std::move(next), fmt::format("compute_at {} {}", block, loop));
}

Decision Schedule::reverse_compute_at(std::string_view block, std::string_view loop) {
  Move m;
  Sides sides;
  if (const Decision d = find_move(nest_, block, loop, m); !d) return d;
  if (m.from < m.to) return Decision::no("the block stands in front of the loop");
  if (const Decision d = Completed(nest_, m).run(sides); !d) return d;
  bool later = false;
  each_block(nest_, [&](const Block& x) {
    if (&x == m.block || x.prefetch || !reads(*m.block, x.buffer)) return;
    const Path at = *find_block(nest_, x.name);
    later |= !starts_with(at, m.to) && m.to < at;
  });
  if (later) return Decision::no("the block reads something that is computed later");
  Nest next = nest_;
  Item item = in_loops(next, *m.block, sides, m.around);
  taken_out(next, m.from);
  const auto to = find_loop(next, loop);
  if (!to) return Decision::no("the loop is gone with the block");
  item_at(next, *to).body.push_back(std::move(item));
  return done(std::move(next), fmt::format("reverse_compute_at {} {}", block, loop));
}

Decision Schedule::compute_inline(std::string_view block) {
  const auto from = find_block(nest_, block);
  if (!from) return Decision::no("there is no block of this name");
  const Block b = *item_at(nest_, *from).block;
  if (const Decision d = movable(nest_, b); !d) return d;
  if (b.reduces()) return Decision::no("a reduction cannot be put into an expression");
  if (b.buffer < nest_.argument_count()) return Decision::no("the block computes an output");
  std::vector<size_t> dim_of(b.iters.size(), SIZE_MAX);
  for (size_t d = 0; d < b.indices.size(); ++d) {
    const auto k = plain_iter(b, b.indices[d]);
    if (!k) return Decision::no("the block's buffer has a layout of its own; inline before transforming it");
    dim_of[*k] = d;
  }
  bool tiled = false;
  each_block(nest_, [&](const Block& x) { tiled |= x.tile && reads(x, b.buffer); });
  if (tiled) return Decision::no("a tile reads what the block computes");
  const DType dtype = b.value.dtype();
  const bool rounds = dtype == DType::F16 || dtype == DType::BF16;
  const Expr value = rounds ? te::cast(dtype, te::cast(DType::F32, b.value)) : b.value;
  const auto inlined = [&](const Expr& e) {
    if (e.empty()) return e;
    return rebuild(e, [&](const Expr& x) {
      if (x->kind != Kind::Read || x->tensor != b.buffer) return Expr();
      Substitution map;
      for (size_t k = 0; k < b.iters.size(); ++k) map.emplace(b.iters[k].axis.id, x->args[dim_of[k]]);
      return substitute(value, map);
    });
  };
  Nest next = nest_;
  taken_out(next, *from);
  each_block(next, [&](Block& x) {
    x.value = inlined(x.value);
    x.where = inlined(x.where);
  });
  return done(std::move(next), fmt::format("compute_inline {}", block));
}

}  // namespace isomer::loop
