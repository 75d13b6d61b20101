#include "loop/storage.h"

#include <algorithm>

#include "te/simplify.h"

namespace isomer::loop {
namespace {

using te::Expr;

struct Access {
  std::vector<const Loop*> loops;
  std::vector<Expr> indices;  // over loop variables
};

class Uses {
 public:
  explicit Uses(size_t buffers) : accesses(buffers) {}
  std::vector<std::vector<Access>> accesses;

  void walk(const Item& item) {
    if (item.is_loop()) {
      loops_.push_back(&item.loop);
      for (const Item& i : item.body) walk(i);
      loops_.pop_back();
      return;
    }
    const Block& b = *item.block;
    if (b.prefetch) return;
    bindings_ = bindings_of(b);
    note(b.buffer, b.indices);
    const auto look = [&](const te::Node& n) { note(n.tensor, n.args); };
    each_read(b.value, look);
    each_read(b.where, look);
    for (const Expr& i : b.indices) each_read(i, look);
  }

 private:
  void note(int buffer, const std::vector<Expr>& indices) {
    std::vector<te::Axis> axes;
    for (const Loop* l : loops_) axes.push_back({l->var, "", Dim(l->extent)});
    Access a{loops_, {}};
    for (const Expr& i : indices) a.indices.push_back(te::simplify(substitute(i, bindings_), axes));
    accesses[static_cast<size_t>(buffer)].push_back(std::move(a));
  }

  std::vector<const Loop*> loops_;
  Substitution bindings_;
};

size_t common_loops(const std::vector<Access>& accesses) {
  size_t n = accesses[0].loops.size();
  for (const Access& a : accesses) {
    size_t k = 0;
    while (k < n && k < a.loops.size() && a.loops[k] == accesses[0].loops[k]) ++k;
    n = k;
  }
  return n;
}

// The part of an index that only outer variables decide, and the range of the rest.
struct Split {
  Affine outer;  // without constant
  Range inner;
};

Split split_index(const Expr& index, const Access& a, size_t outer_loops) {
  Ranges ranges;
  for (const Loop* l : a.loops) ranges.push(l->var, l->extent);
  Split s;
  Affine inner;
  const Affine form = affine_of(index);
  inner.constant = form.constant;
  for (const Affine::Term& t : form.terms) {
    std::vector<int> used;
    variables(t.atom, used);
    const bool outside = std::all_of(used.begin(), used.end(), [&](int v) {
      return std::any_of(a.loops.begin(), a.loops.begin() + static_cast<std::ptrdiff_t>(outer_loops),
                         [&](const Loop* l) { return l->var == v; });
    });
    (outside && !has_read(t.atom) ? s.outer : inner).add(t.atom, t.coefficient);
  }
  s.inner = ranges.range(inner);
  return s;
}

void shrink(const Buffer& buffer, const std::vector<Access>& accesses, Storage& s) {
  const size_t outer = common_loops(accesses);
  for (size_t d = 0; d < buffer.dims.size(); ++d) {
    Split all = split_index(accesses[0].indices[d], accesses[0], outer);
    bool fits = true;
    for (const Access& a : accesses) {
      const Split one = split_index(a.indices[d], a, outer);
      fits &= same(one.outer, all.outer);
      all.inner = {std::min(all.inner.low, one.inner.low), std::max(all.inner.high, one.inner.high)};
    }
    if (!fits) continue;
    if (all.outer.terms.empty()) {
      all.inner.low = std::max<int64_t>(all.inner.low, 0);
      all.inner.high = std::min(all.inner.high, buffer.dims[d] - 1);
    }
    const int64_t extent = all.inner.high - all.inner.low + 1;
    if (extent < 1 || extent >= buffer.dims[d]) continue;
    all.outer.constant = all.inner.low;
    s.base[d] = to_expr(all.outer);
    s.dims[d] = extent;
  }
}

}  // namespace

std::vector<Storage> storage_of(const Nest& nest, const std::vector<const Item*>& items,
                                const std::vector<bool>& whole) {
  Uses uses(nest.buffers.size());
  for (const Item* i : items) uses.walk(*i);
  std::vector<Storage> out;
  for (size_t b = 0; b < nest.buffers.size(); ++b) {
    Storage s{std::vector<Expr>(nest.buffers[b].dims.size(), Expr(0)), nest.buffers[b].dims};
    if (!whole[b] && !uses.accesses[b].empty()) shrink(nest.buffers[b], uses.accesses[b], s);
    out.push_back(std::move(s));
  }
  return out;
}

}  // namespace isomer::loop
