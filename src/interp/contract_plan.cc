#include "interp/contract_plan.h"

#include <algorithm>

namespace isomer::interp {
namespace {

constexpr int64_t kFewestRows = 4;  // packing must pay
constexpr int64_t kMostPoints = int64_t{1} << 20;

bool contains(const std::vector<Affine>& all, const Affine& a) {
  return std::find(all.begin(), all.end(), a) != all.end();
}

}  // namespace

void plan_rows(Contraction& c, const ContractionMatch& m, const std::vector<int64_t>& dims, int lane_axis) {
  const bool in_a = c.a.address.form.lane != 0, in_b = c.b.address.form.lane != 0;
  if (in_a == in_b) return;
  int64_t points = 1;
  for (int64_t e : c.extents) {
    if (e > kMostPoints / points) return;
    points *= e;
  }
  const auto& row_needs = in_a ? m.b_needs : m.a_needs;
  const auto& lane_needs = in_a ? m.a_needs : m.b_needs;
  std::vector<bool> fixed(dims.size(), false);  // output axes on which the lanes' operand depends
  const auto depend = [&](const Form& f) {
    for (const auto& [slot, k] : f.terms)
      if (static_cast<size_t>(slot) < fixed.size()) fixed[static_cast<size_t>(slot)] = true;
  };
  depend((in_a ? c.a : c.b).address.form);
  std::vector<Contraction::Part> row_guards, lane_guards;
  for (size_t i = 0; i < m.guards.size(); ++i) {
    const Affine& g = m.guards[i];
    if (c.guards[i].form.lane == 0 && !contains(lane_needs, g)) {
      row_guards.push_back(c.guards[i]);
    } else if (!contains(row_needs, g)) {
      lane_guards.push_back(c.guards[i]);
      depend(c.guards[i].form);
    } else {
      return;
    }
  }
  // Where a guard fails its operand is packed as zero, and zero times anything finite adds nothing.
  if (!row_guards.empty() && !(in_a ? m.a_finite : m.b_finite)) return;
  if (!lane_guards.empty() && !(in_a ? m.b_finite : m.a_finite)) return;
  std::vector<int> axes;
  int64_t rows = 1;
  for (size_t k = 0; k < dims.size(); ++k) {
    if (static_cast<int>(k) == lane_axis || fixed[k]) continue;
    axes.push_back(static_cast<int>(k));
    rows *= dims[k];
  }
  if (rows < kFewestRows) return;
  c.row_axes = std::move(axes);
  c.lanes_in_a = in_a;
  c.row_guards = std::move(row_guards);
  c.lane_guards = std::move(lane_guards);
}

}  // namespace isomer::interp
