// PanelContraction: computes a contraction for many rows and a block of lanes at once. Both operands are packed as
// doubles, with zeros where their guards do not hold, so that the inner loop is a tile of a matrix product.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "interp/block_program.h"
#include "interp/panel_kernel.h"

namespace isomer::interp {

// One worker's buffers. Rows are the points of the contraction's row axes, in row-major order.
class PanelContraction {
 public:
  static constexpr int64_t kRows = 64;

  PanelContraction(const Contraction& c, int64_t lanes);
  // Takes the sums at the lanes [0, n) of rows from `first` on: of as many as have the lanes' operand in common, at most
  // `most`. How many these are; none when `keep_going` said so. `place(row)` sets the slots to a row, and the slots
  // stand at the first one before and after.
  int64_t compute(int64_t first, int64_t most, int n, const int64_t* slots, const std::function<void(int64_t)>& place,
                  const std::function<bool()>& keep_going);
  const double* row(int64_t i) const { return sums_.data() + i * stride_; }

 private:
  bool same_lanes(const int64_t* slots) const;
  template <class T>
  void pack_rows(const T* data, int64_t rows, int64_t k0, int64_t k1);
  template <class T>
  void pack_lanes(const T* data, int n, int64_t k0, int64_t k1);
  void multiply(int64_t rows, int n, int64_t depth);

  struct Table {  // an affine part over the points of the reduction
    std::vector<int64_t> offset;
    int64_t lane = 0;
  };
  Table table(const Contraction::Part& p) const;

  const Contraction& c_;
  const PanelKernel& kernel_;
  int64_t points_ = 1, stride_ = 0;
  Table row_, lane_;
  std::vector<Table> row_guards_, lane_guards_;
  std::vector<int64_t> row_at_, row_guard_at_;  // per row; guards of one row are neighbours
  int64_t lane_at_ = 0;
  std::vector<int64_t> lane_guard_at_, low_, high_;
  std::vector<double> a_, b_, sums_;
};

}  // namespace isomer::interp
