#include "interp/contract_panel.h"

#include <algorithm>

#include "interp/clip.h"

namespace isomer::interp {
namespace {

constexpr int64_t kDepth = 128;  // points packed at a time: both panels stay in a core's own cache

int64_t round_up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

}  // namespace

PanelContraction::PanelContraction(const Contraction& c, int64_t lanes) : c_(c), kernel_(panel_kernel()) {
  for (int64_t e : c.extents) points_ *= e;
  stride_ = round_up(lanes, kernel_.lanes);
  row_ = table(c.row_operand().address);
  lane_ = table(c.lane_operand().address);
  for (const auto& g : c.row_guards) row_guards_.push_back(table(g));
  for (const auto& g : c.lane_guards) lane_guards_.push_back(table(g));
  row_at_.resize(kRows);
  row_guard_at_.resize(kRows * row_guards_.size());
  lane_guard_at_.resize(lane_guards_.size());
  low_.resize(kDepth);
  high_.resize(kDepth);
  a_.resize(static_cast<size_t>(round_up(kRows, kernel_.rows) * kDepth));
  b_.resize(static_cast<size_t>(stride_ * kDepth));
  sums_.resize(static_cast<size_t>(round_up(kRows, kernel_.rows) * stride_));
}

PanelContraction::Table PanelContraction::table(const Contraction::Part& p) const {
  Table t;
  t.lane = p.form.lane;
  t.offset.assign(1, 0);
  t.offset.reserve(static_cast<size_t>(points_));
  for (size_t axis = 0; axis < c_.extents.size(); ++axis) {
    std::vector<int64_t> next;
    next.reserve(t.offset.size() * static_cast<size_t>(c_.extents[axis]));
    for (int64_t base : t.offset)
      for (int64_t k = 0; k < c_.extents[axis]; ++k) next.push_back(base + k * p.steps[axis]);
    t.offset = std::move(next);
  }
  return t;
}

bool PanelContraction::same_lanes(const int64_t* slots) const {
  if (c_.lane_operand().address.form.at(slots) != lane_at_) return false;
  for (size_t g = 0; g < lane_guards_.size(); ++g)
    if (c_.lane_guards[g].form.at(slots) != lane_guard_at_[g]) return false;
  return true;
}

int64_t PanelContraction::compute(int64_t first, int64_t most, int n, const int64_t* slots,
                                  const std::function<void(int64_t)>& place, const std::function<bool()>& keep_going) {
  const size_t guards = row_guards_.size();
  lane_at_ = c_.lane_operand().address.form.at(slots);
  for (size_t g = 0; g < lane_guards_.size(); ++g) lane_guard_at_[g] = c_.lane_guards[g].form.at(slots);
  int64_t rows = 0;
  for (; rows < std::min(most, kRows); ++rows) {
    const auto r = static_cast<size_t>(rows);
    if (rows > 0) place(first + rows);
    if (!same_lanes(slots)) break;
    row_at_[r] = c_.row_operand().address.form.at(slots);
    for (size_t g = 0; g < guards; ++g) row_guard_at_[r * guards + g] = c_.row_guards[g].form.at(slots);
  }
  place(first);
  std::fill_n(sums_.begin(), round_up(rows, kernel_.rows) * stride_, 0.0);
  const auto with_data = [](const Tensor& t, auto f) {
    if (t.dtype() == DType::F64)
      f(reinterpret_cast<const double*>(t.bytes()));
    else
      f(reinterpret_cast<const float*>(t.bytes()));
  };
  for (int64_t k0 = 0; k0 < points_; k0 += kDepth) {
    if (!keep_going()) return 0;
    const int64_t k1 = std::min(points_, k0 + kDepth);
    with_data(*c_.row_operand().tensor, [&](const auto* data) { pack_rows(data, rows, k0, k1); });
    with_data(*c_.lane_operand().tensor, [&](const auto* data) { pack_lanes(data, n, k0, k1); });
    multiply(rows, n, k1 - k0);
  }
  return rows;
}

template <class T>
void PanelContraction::pack_rows(const T* data, int64_t rows, int64_t k0, int64_t k1) {
  const int64_t group = kernel_.rows, depth = k1 - k0;
  const size_t guards = row_guards_.size();
  for (int64_t r = 0; r < round_up(rows, group); ++r) {
    double* out = a_.data() + r / group * group * depth + r % group;
    if (r >= rows) {
      for (int64_t k = 0; k < depth; ++k) out[k * group] = 0;
      continue;
    }
    const T* in = data + row_at_[static_cast<size_t>(r)];
    const int64_t* offset = row_.offset.data() + k0;
    if (guards == 0) {
      for (int64_t k = 0; k < depth; ++k) out[k * group] = static_cast<double>(in[offset[k]]);
      continue;
    }
    const int64_t* at = row_guard_at_.data() + static_cast<size_t>(r) * guards;
    for (int64_t k = 0; k < depth; ++k) {
      bool inside = true;
      for (size_t g = 0; g < guards; ++g) inside &= at[g] + row_guards_[g].offset[static_cast<size_t>(k0 + k)] >= 0;
      out[k * group] = inside ? static_cast<double>(in[offset[k]]) : 0.0;
    }
  }
}

template <class T>
void PanelContraction::pack_lanes(const T* data, int n, int64_t k0, int64_t k1) {
  const int64_t group = kernel_.lanes, depth = k1 - k0, step = lane_.lane;
  for (int64_t k = 0; k < depth; ++k) {
    int64_t from = 0, to = n;
    for (size_t g = 0; g < lane_guards_.size(); ++g)
      clip(lane_guard_at_[g] + lane_guards_[g].offset[static_cast<size_t>(k0 + k)], lane_guards_[g].lane, from, to);
    low_[static_cast<size_t>(k)] = std::min<int64_t>(from, n);
    high_[static_cast<size_t>(k)] = std::max(to, low_[static_cast<size_t>(k)]);
  }
  const int64_t* offset = lane_.offset.data() + k0;
  double* out = b_.data();
  for (int64_t l = 0; l < n; l += group)
    for (int64_t k = 0; k < depth; ++k, out += group) {
      const int64_t from = std::max<int64_t>(low_[static_cast<size_t>(k)] - l, 0);
      const int64_t to = std::min<int64_t>(high_[static_cast<size_t>(k)] - l, group);
      if (from > 0 || to < group) std::fill_n(out, group, 0.0);
      const T* in = data + (lane_at_ + offset[k] + l * step);
      if (step == 1 && from <= 0 && to == group)
        for (int64_t j = 0; j < group; ++j) out[j] = static_cast<double>(in[j]);
      else
        for (int64_t j = from; j < to; ++j) out[j] = static_cast<double>(in[j * step]);
    }
}

void PanelContraction::multiply(int64_t rows, int n, int64_t depth) {
  for (int64_t l = 0; l < n; l += kernel_.lanes)
    for (int64_t r = 0; r < rows; r += kernel_.rows)
      kernel_.run(a_.data() + r * depth, b_.data() + l * depth, depth, sums_.data() + r * stride_ + l, stride_);
}

}  // namespace isomer::interp
