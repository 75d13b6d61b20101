#include "loop/storage.h"

#include "loop/region.h"

namespace isomer::loop {
namespace {

size_t common_loops(const std::vector<Access>& accesses) {
  size_t n = accesses[0].loops.size();
  for (const Access& a : accesses) {
    size_t k = 0;
    while (k < n && k < a.loops.size() && a.loops[k] == accesses[0].loops[k]) ++k;
    n = k;
  }
  return n;
}

}  // namespace

std::vector<Storage> storage_of(const Nest& nest, const std::vector<const Item*>& items,
                                const std::vector<bool>& whole) {
  const std::vector<std::vector<Access>> accesses = accesses_of(nest, items);
  std::vector<Storage> out;
  for (size_t b = 0; b < nest.buffers.size(); ++b) {
    Storage s{std::vector<te::Expr>(nest.buffers[b].dims.size(), te::Expr(0)), nest.buffers[b].dims};
    if (!whole[b] && !accesses[b].empty()) {
      std::vector<const Access*> all;
      for (const Access& a : accesses[b]) all.push_back(&a);
      const std::vector<Side> sides = region_of(all, common_loops(accesses[b]), s.dims);
      for (size_t d = 0; d < sides.size(); ++d) {
        s.base[d] = to_expr(sides[d].base);
        s.dims[d] = sides[d].extent;
      }
    }
    out.push_back(std::move(s));
  }
  return out;
}

}  // namespace isomer::loop
