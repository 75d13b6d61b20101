#include "ops/reindex.h"

namespace isomer::ops {
namespace {

// Axes p..p_end of one shape hold the elements of axes q..q_end of the other.
struct Group {
  size_t p, p_end, q, q_end;
};

// The finest groups of axes with equal products. Ones have been left out. Where symbols hide the split, the rest is
// one group.
std::vector<Group> groups(std::span<const Dim> from, std::span<const Dim> to) {
  std::vector<Group> out;
  size_t p = 0, q = 0;
  while (p < from.size() && q < to.size()) {
    Group g{p, p + 1, q, q + 1};
    Dim a = from[p], b = to[q];
    while (!(a == b)) {
      const bool numbers = a.is_const() && b.is_const();
      const bool grow_b = numbers ? a.value() > b.value() : floor_mod(a, b) == Dim(0);
      const bool grow_a = numbers ? !grow_b : floor_mod(b, a) == Dim(0);
      if (grow_b && g.q_end < to.size()) {
        b = b * to[g.q_end++];
      } else if (grow_a && g.p_end < from.size()) {
        a = a * from[g.p_end++];
      } else {
        g.p_end = from.size(), g.q_end = to.size();
        break;
      }
    }
    out.push_back(g);
    p = g.p_end, q = g.q_end;
  }
  // A symbol on one side may stand for 1; it joins the last group.
  if (!out.empty()) out.back().p_end = from.size(), out.back().q_end = to.size();
  return out;
}

}  // namespace

std::vector<te::Expr> reindex(std::span<const te::Expr> i, std::span<const Dim> from, std::span<const Dim> to) {
  std::vector<te::Expr> index, out(to.size(), te::Expr(0));
  std::vector<Dim> own, other;
  std::vector<size_t> place;
  for (size_t k = 0; k < from.size(); ++k)
    if (!(from[k] == Dim(1))) own.push_back(from[k]), index.push_back(i[k]);
  for (size_t k = 0; k < to.size(); ++k)
    if (!(to[k] == Dim(1))) other.push_back(to[k]), place.push_back(k);
  for (const Group& g : groups(own, other)) {
    const std::span<const Dim> dims = std::span(other).subspan(g.q, g.q_end - g.q);
    const te::Expr position =
        te::flatten(std::span(index).subspan(g.p, g.p_end - g.p), std::span(own).subspan(g.p, g.p_end - g.p));
    const std::vector<te::Expr> parts = te::unflatten(position, dims);
    for (size_t k = 0; k < parts.size(); ++k) out[place[g.q + k]] = parts[k];
  }
  return out;
}

te::Program reshaped(const ir::OpContext& c, std::span<const Dim> dims) {
  te::Builder b;
  const auto in = c.declare(b);
  return b.finish({b.map("y", c.dtype(0), dims, [&](auto i) { return in[0].at(reindex(i, dims, in[0].dims())); })});
}

}  // namespace isomer::ops
