#include "loop/region.h"

#include <algorithm>

#include "te/simplify.h"

namespace isomer::loop {
namespace {

using te::Expr;
using te::Kind;

class Collector {
 public:
  Collector(size_t buffers, std::vector<const Loop*> around) : accesses(buffers), loops_(std::move(around)) {}
  std::vector<std::vector<Access>> accesses;

  void walk(const Item& item) {
    if (item.is_loop()) {
      loops_.push_back(&item.loop);
      for (const Item& i : item.body) walk(i);
      loops_.pop_back();
      return;
    }
    block_ = &*item.block;
    if (block_->prefetch) return;
    bindings_ = bindings_of(*block_);
    axes_.clear();
    for (const Loop* l : loops_) axes_.push_back({l->var, "", Dim(l->extent)});
    note(block_->buffer, block_->indices, true);
    const auto look = [&](const te::Node& n) { note(n.tensor, n.args, false); };
    each_read(block_->value, look);
    each_read(block_->where, look);
    for (const Expr& i : block_->indices) each_read(i, look);
  }

 private:
  void note(int buffer, const std::vector<Expr>& indices, bool write) {
    Access a{loops_, {}, block_, write};
    for (const Expr& i : indices) a.indices.push_back(te::simplify(substitute(i, bindings_), axes_));
    accesses[static_cast<size_t>(buffer)].push_back(std::move(a));
  }

  std::vector<const Loop*> loops_;
  const Block* block_ = nullptr;
  std::vector<te::Axis> axes_;
  Substitution bindings_;
};

// The part of an index that only outer variables decide, and the range of the rest.
struct Parts {
  Affine outer;  // without constant
  Range inner;
};

Parts parts_of(const Expr& index, const Access& a, size_t outer_loops) {
  Ranges ranges;
  for (const Loop* l : a.loops) ranges.push(l->var, l->extent);
  Parts s;
  Affine inner;
  const Affine form = affine_of(index);
  inner.constant = form.constant;
  const auto is_outer = [&](int v) {
    for (size_t k = 0; k < outer_loops && k < a.loops.size(); ++k)
      if (a.loops[k]->var == v) return true;
    return false;
  };
  for (const Affine::Term& t : form.terms) {
    std::vector<int> used;
    variables(t.atom, used);
    const bool outside = std::all_of(used.begin(), used.end(), is_outer) && !has_read(t.atom);
    (outside ? s.outer : inner).add(t.atom, t.coefficient);
  }
  s.inner = ranges.range(inner);
  return s;
}

bool simple_atom(const Expr& e) {
  if (e->kind == Kind::Var) return true;
  const bool quotient =
      e->kind == Kind::Binary && (e->binary == te::BinaryOp::FloorDiv || e->binary == te::BinaryOp::FloorMod);
  return quotient && e->args[1]->kind == Kind::Int && simple_atom(e->args[0]);
}

}  // namespace

std::vector<std::vector<Access>> accesses_of(const Nest& nest, const std::vector<const Item*>& items,
                                             std::vector<const Loop*> around) {
  Collector c(nest.buffers.size(), std::move(around));
  for (const Item* i : items) c.walk(*i);
  return std::move(c.accesses);
}

std::vector<Side> region_of(const std::vector<const Access*>& accesses, size_t outer,
                            const std::vector<int64_t>& dims) {
  std::vector<Side> out(dims.size());
  for (size_t d = 0; d < dims.size(); ++d) {
    out[d].extent = dims[d];
    if (accesses.empty()) continue;
    Parts all = parts_of(accesses[0]->indices[d], *accesses[0], outer);
    bool fits = true;
    for (const Access* a : accesses) {
      const Parts one = parts_of(a->indices[d], *a, outer);
      fits &= same(one.outer, all.outer);
      all.inner = {std::min(all.inner.low, one.inner.low), std::max(all.inner.high, one.inner.high)};
    }
    if (!fits) continue;
    if (all.outer.terms.empty()) {
      all.inner.low = std::max<int64_t>(all.inner.low, 0);
      all.inner.high = std::min(all.inner.high, dims[d] - 1);
    }
    const int64_t extent = all.inner.high - all.inner.low + 1;
    if (extent < 1 || extent > dims[d]) continue;
    out[d].base = std::move(all.outer);
    out[d].base.constant = all.inner.low;
    out[d].extent = extent;
  }
  return out;
}

bool tiles(const std::vector<Side>& sides, const std::vector<const Loop*>& loops, const std::vector<int64_t>& dims) {
  Ranges ranges;
  int64_t iterations = 1, steps = 1;
  for (const Loop* l : loops) {
    ranges.push(l->var, l->extent);
    iterations *= l->extent;
  }
  for (size_t d = 0; d < sides.size(); ++d) {
    std::vector<Affine::Term> terms = sides[d].base.terms;
    std::erase_if(terms, [&](const Affine::Term& t) {
      const Range r = ranges.range(t.atom);
      return r.low == 0 && r.high == 0;
    });
    std::sort(terms.begin(), terms.end(), [](const auto& a, const auto& b) { return a.coefficient < b.coefficient; });
    int64_t covered = sides[d].extent;
    for (const Affine::Term& t : terms) {
      const Range r = ranges.range(t.atom);
      if (!simple_atom(t.atom) || t.coefficient != covered || r.low != 0) return false;
      covered *= r.high + 1;
      steps *= r.high + 1;
    }
    if (sides[d].base.constant != 0 || covered < dims[d]) return false;
  }
  return steps == iterations;
}

bool separates(const std::vector<Side>& sides, const Loop& loop) {
  Ranges ranges;
  ranges.push(loop.var, loop.extent);
  int64_t steps = 1;
  for (const Side& side : sides) {
    std::vector<Affine::Term> terms;
    for (const Affine::Term& t : side.base.terms)
      if (uses(t.atom, loop.var)) terms.push_back(t);
    for (Affine::Term& t : terms) t.coefficient = std::abs(t.coefficient);
    std::sort(terms.begin(), terms.end(), [](const auto& a, const auto& b) { return a.coefficient < b.coefficient; });
    int64_t covered = side.extent;
    for (const Affine::Term& t : terms) {
      const Range r = ranges.range(t.atom);
      if (!simple_atom(t.atom) || r.low != 0 || t.coefficient < covered) return false;
      covered += t.coefficient * r.high;
      steps *= r.high + 1;
    }
  }
  return steps >= loop.extent;
}

bool separates(const Nest& nest, const Path& path, const Loop& loop) {
  if (loop.extent <= 1) return true;
  const std::vector<const Loop*> around = loops_around(nest, path);
  const Item& item = item_at(nest, path);
  const auto accesses = accesses_of(nest, {&item}, around);
  std::vector<const Access*> writes;
  for (const Access& a : accesses[static_cast<size_t>(item.block->buffer)])
    if (a.write) writes.push_back(&a);
  size_t outer = 0;
  while (outer < around.size() && around[outer]->var != loop.var) ++outer;
  return separates(region_of(writes, outer + 1, nest.buffers[static_cast<size_t>(item.block->buffer)].dims), loop);
}

}  // namespace isomer::loop
