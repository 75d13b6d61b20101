#include "interp/panel_kernel.h"

#include <gtest/gtest.h>

#include <bit>

#include "base/random.h"

namespace isomer::interp {
namespace {

std::vector<double> random_numbers(Random& random, int64_t n) {
  std::vector<double> out(static_cast<size_t>(n));
  for (double& v : out) v = random.uniform(-4, 4);
  return out;
}

// Every kernel against the definition, number by number: the sum is taken upward and a product is rounded before it.
TEST(PanelKernel, AllHaveTheBitsOfTheDefinition) {
  Random random(7);
  for (const PanelKernel& kernel : panel_kernels()) {
    for (const int64_t depth : {0, 1, 5, 64}) {
      const int64_t rows = kernel.rows, lanes = kernel.lanes, stride = lanes + 3;
      const auto a = random_numbers(random, depth * rows), b = random_numbers(random, depth * lanes);
      auto sums = random_numbers(random, rows * stride), expected = sums;
      for (int64_t i = 0; i < rows; ++i)
        for (int64_t j = 0; j < lanes; ++j)
          for (int64_t k = 0; k < depth; ++k) {
            const volatile double product =
                a[static_cast<size_t>(k * rows + i)] * b[static_cast<size_t>(k * lanes + j)];
            expected[static_cast<size_t>(i * stride + j)] += product;
          }
      kernel.run(a.data(), b.data(), depth, sums.data(), stride);
      for (size_t i = 0; i < sums.size(); ++i)
        ASSERT_EQ(std::bit_cast<uint64_t>(expected[i]), std::bit_cast<uint64_t>(sums[i])) << kernel.name << " " << i;
    }
  }
}

TEST(PanelKernel, OneIsThereOnEveryMachine) {
  EXPECT_STREQ(panel_kernels().back().name, "plain");
  EXPECT_EQ(panel_kernel().run, panel_kernels().front().run);
}

}  // namespace
}  // namespace isomer::interp
