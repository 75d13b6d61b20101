// PanelKernel: sums[i][j] += a[k][i] * b[k][j] for a tile of mr rows by nr lanes, k upward. All kernels give the same
// bits: lanes are independent, a product and a sum are two roundings, and only the instructions differ.
#pragma once

#include <cstdint>
#include <vector>

namespace isomer::interp {

struct PanelKernel {
  const char* name;
  int rows, lanes;
  // `a` holds `depth` groups of `rows` numbers, `b` groups of `lanes`; row i of the sums starts at sums + i * stride.
  void (*run)(const double* a, const double* b, int64_t depth, double* sums, int64_t stride);
};

std::vector<PanelKernel> panel_kernels();  // those this machine can run, the fastest first
const PanelKernel& panel_kernel();

}  // namespace isomer::interp
