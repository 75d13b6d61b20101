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

Expected<void> check_broadcasts_to(const ir::OpContext& c, size_t i, std::span<const Dim> dims) {
  const std::vector<Dim>& own = c.shape(i).dims();
  bool fits = own.size() <= dims.size();
  for (size_t k = 0; fits && k < own.size(); ++k) {
    const Dim& to = dims[dims.size() - own.size() + k];
    fits = own[k] == to || own[k] == Dim(1) || !own[k].is_const() || !to.is_const();
  }
  if (fits) return {};
  return c.error(fmt::format("input '{}' of shape {} does not broadcast to {}", c.op().inputs[i].name,
                             c.shape(i).to_string(), Shape(std::vector<Dim>(dims.begin(), dims.end())).to_string()));
}

}  // namespace isomer::ops
