#include "compile/filtering.h"

#include <cmath>

#include "base/check.h"

namespace isomer::compile {

namespace {

// Toom and Cook's: the transposed product of two polynomials, given by their values at points.
Filtering filtering_at(const std::vector<double>& points, int64_t outputs, int64_t taps) {
  const auto m = static_cast<size_t>(outputs), r = static_cast<size_t>(taps), n = m + r - 1;
  if (n - 1 > points.size()) check_failed("minimal filtering has at most 8 products", std::to_string(n));
  Filtering f{Filtering::Matrix(n, std::vector<double>(n)), Filtering::Matrix(n, std::vector<double>(r)),
              Filtering::Matrix(m, std::vector<double>(n))};
  for (size_t j = 0; j < n; ++j) {
    const bool infinite = j == n - 1;
    // The product of (x - p) over all other finite points, by its coefficients, and its value at this one.
    std::vector<double> product = {1};
    double value = 1;
    for (size_t l = 0; l + 1 < n; ++l) {
      if (l == j) continue;
      std::vector<double> next(product.size() + 1);
      for (size_t i = 0; i < product.size(); ++i) {
        next[i] -= points[l] * product[i];
        next[i + 1] += product[i];
      }
      product = std::move(next);
      if (!infinite) value *= points[j] - points[l];
    }
    for (size_t i = 0; i < product.size(); ++i) f.input[j][i] = product[i];
    for (size_t k = 0; k < r; ++k)
      f.taps[j][k] = infinite ? (k == r - 1 ? 1 : 0) : std::pow(points[j], static_cast<double>(k)) / value;
    for (size_t i = 0; i < m; ++i)
      f.output[i][j] = infinite ? (i == m - 1 ? 1 : 0) : std::pow(points[j], static_cast<double>(i));
  }
  return f;
}

}  // namespace

Filtering filtering(int64_t outputs, int64_t taps) { return filtering_at({0, 1, -1, 2, -2, 0.5, -0.5}, outputs, taps); }

Filtering robust_filtering(int64_t outputs, int64_t taps) {
  return outputs == 4 && taps == 3 ? filtering_at({0, 0.75, -0.75, 1.5, -1.5}, outputs, taps)
                                   : filtering(outputs, taps);
}

}  // namespace isomer::compile
