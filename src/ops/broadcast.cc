#include "ops/broadcast.h"

#include <fmt/format.h>

namespace isomer::ops {

Expected<std::vector<Dim>> broadcast_dims(const ir::OpContext& c, std::span<const std::vector<Dim>> shapes) {
  size_t rank = 0;
  for (const auto& s : shapes) rank = std::max(rank, s.size());
  std::vector<Dim> out(rank, Dim(1));
  for (const auto& s : shapes) {
    for (size_t i = 0; i < s.size(); ++i) {
      Dim& d = out[rank - s.size() + i];
      const Dim& e = s[i];
      if (d == e || e == Dim(1)) continue;
      if (d == Dim(1)) {
        d = e;
      } else if (d.is_const() && e.is_const()) {
        return c.error(fmt::format("shapes {} and {} do not broadcast: axis {} has extents {} and {}",
                                   Shape(out).to_string(), Shape(s).to_string(), i, d.value(), e.value()));
      } else if (e.is_const()) {
        d = e;
      } else if (!d.is_const()) {
        d = Dim::invalid();
      }
    }
  }
  return out;
}

Expected<std::vector<Dim>> broadcast_inputs(const ir::OpContext& c, size_t first) {
  std::vector<std::vector<Dim>> shapes;
  for (size_t i = first; i < c.input_count(); ++i)
    if (c.has(i)) shapes.push_back(c.shape(i).dims());
  return broadcast_dims(c, shapes);
}

}  // namespace isomer::ops
