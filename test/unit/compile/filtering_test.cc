#include "compile/filtering.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/random.h"

namespace isomer::compile {
namespace {

// outputs = output * ((taps * g) . (input * d)) is the filter, whatever the points are.
void expect_filters(const Filtering& f, size_t taps) {
  Random random(3);
  const auto m = static_cast<size_t>(f.outputs()), n = static_cast<size_t>(f.patch());
  std::vector<double> g(taps), d(n);
  for (double& v : g) v = random.uniform(-1, 1);
  for (double& v : d) v = random.uniform(-1, 1);
  for (size_t i = 0; i < m; ++i) {
    double got = 0, want = 0;
    for (size_t j = 0; j < n; ++j) {
      double tap = 0, point = 0;
      for (size_t k = 0; k < taps; ++k) tap += f.taps[j][k] * g[k];
      for (size_t k = 0; k < n; ++k) point += f.input[j][k] * d[k];
      got += f.output[i][j] * tap * point;
    }
    for (size_t k = 0; k < taps; ++k) want += g[k] * d[i + k];
    EXPECT_NEAR(got, want, 1e-12);
  }
}

TEST(Filtering, IsTheFilterAtAllPoints) {
  expect_filters(filtering(4, 3), 3);
  expect_filters(filtering(2, 3), 3);
  expect_filters(filtering(2, 7), 7);
  expect_filters(filtering(1, 1), 1);
  expect_filters(robust_filtering(4, 3), 3);
  expect_filters(robust_filtering(2, 3), 3);
}

// What an error of every product makes of an output at worst.
double amplification(const Filtering& f) {
  double worst = 0;
  for (const auto& row : f.output) {
    double sum = 0;
    for (size_t j = 0; j < row.size(); ++j) {
      double tap = 0, point = 0;
      for (const double v : f.taps[j]) tap += std::abs(v);
      for (const double v : f.input[j]) point += std::abs(v);
      sum += std::abs(row[j]) * tap * point;
    }
    worst = std::max(worst, sum);
  }
  return worst;
}

TEST(Filtering, RobustPointsAmplifyErrorsLess) {
  EXPECT_LT(amplification(robust_filtering(4, 3)), 0.7 * amplification(filtering(4, 3)));
}

}  // namespace
}  // namespace isomer::compile
