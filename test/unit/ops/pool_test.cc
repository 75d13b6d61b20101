// Pools against plain loops over random geometry, and their answers to attributes no model should have.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/random.h"
#include "run_op.h"

namespace isomer {
namespace {

using Ints = std::vector<int64_t>;

struct Geometry {
  Ints in, k, s, d, p;  // p: begin, begin, end, end
  bool ceil = false, include_pad = false;
};

Geometry random_geometry(Random& r) {
  Geometry g;
  for (int a = 0; a < 2; ++a) {
    g.k.push_back(r.between(1, 3));
    g.s.push_back(r.between(1, 4));
    g.d.push_back(r.between(1, 2));
    g.in.push_back((g.k.back() - 1) * g.d.back() + r.between(1, 4));
  }
  for (size_t a = 0; a < 4; ++a) g.p.push_back(r.between(0, (g.k[a % 2] - 1) * g.d[a % 2]));
  g.ceil = r.flip();
  g.include_pad = r.flip();
  return g;
}

// Output extent by its definition: windows are counted while they start inside the input or the padding before it and,
// unless rounding up, end inside the padded input.
int64_t count_windows(const Geometry& g, size_t a) {
  const int64_t extent = (g.k[a] - 1) * g.d[a] + 1, padded = g.in[a] + g.p[a] + g.p[a + 2];
  int64_t n = 0;
  while (n * g.s[a] + extent <= padded) ++n;
  if (g.ceil && (n - 1) * g.s[a] + extent < padded) ++n;
  if (g.ceil && (n - 1) * g.s[a] >= g.in[a] + g.p[a]) --n;
  return n;
}

struct Pooled {
  double sum = 0, norm = 0, largest = -std::numeric_limits<double>::infinity();
  int64_t inside = 0, padded = 0, index = -1;
};

Pooled pool_at(const Geometry& g, const Tensor& x, int64_t plane, int64_t oh, int64_t ow) {
  Pooled p;
  for (int64_t kh = 0; kh < g.k[0]; ++kh)
    for (int64_t kw = 0; kw < g.k[1]; ++kw) {
      const int64_t h = oh * g.s[0] + kh * g.d[0] - g.p[0], w = ow * g.s[1] + kw * g.d[1] - g.p[1];
      p.padded += h < g.in[0] + g.p[2] && w < g.in[1] + g.p[3];
      if (h < 0 || w < 0 || h >= g.in[0] || w >= g.in[1]) continue;
      const int64_t i = (plane * g.in[0] + h) * g.in[1] + w;
      const double v = x.real(i);
      p.inside++;
      p.sum += v;
      p.norm += std::fabs(v * v * v);
      if (v > p.largest) p.largest = v, p.index = i;
    }
  return p;
}

TEST(Pools, AgreeWithPlainLoops) {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(seed);
    Random r(seed);
    const Geometry g = random_geometry(r);
    Tensor x(DType::F64, {2, 2, g.in[0], g.in[1]});
    for (int64_t i = 0; i < x.size(); ++i) x.set_integer(i, r.between(-9, 9));
    ir::Attrs attrs{
        {"kernel_shape", g.k}, {"strides", g.s}, {"dilations", g.d}, {"pads", g.p}, {"ceil_mode", int64_t{g.ceil}}};
    const auto largest = run_op("max_pool", {&x}, attrs, 2);
    ASSERT_TRUE(largest.ok()) << largest.error().to_string();
    attrs.set("p", int64_t{3});
    const auto norm = run_op1("lp_pool", {&x}, attrs);
    ASSERT_TRUE(norm.ok()) << norm.error().to_string();
    attrs.erase("p");
    attrs.set("count_include_pad", int64_t{g.include_pad});
    const auto mean = run_op1("average_pool", {&x}, attrs);
    ASSERT_TRUE(mean.ok()) << mean.error().to_string();
    const Ints dims = {2, 2, count_windows(g, 0), count_windows(g, 1)};
    ASSERT_EQ(mean->dims(), dims);
    ASSERT_EQ(largest->at(0).dims(), dims);
    for (int64_t i = 0; i < mean->size(); ++i) {
      const Pooled p = pool_at(g, x, i / dims[3] / dims[2], i / dims[3] % dims[2], i % dims[3]);
      EXPECT_EQ(largest->at(0).real(i), p.largest);
      if (p.index >= 0) {
        EXPECT_EQ(largest->at(1).integer(i), p.index);
      }
      EXPECT_NEAR(norm->real(i), std::cbrt(p.norm), 1e-9);
      EXPECT_NEAR(mean->real(i), p.sum / static_cast<double>(std::max<int64_t>(1, g.include_pad ? p.padded : p.inside)),
                  1e-12);
    }
  }
}

TEST(MaxPool, CountsIndicesByColumnsWhenAsked) {
  const Tensor x = Tensor::of<double>(DType::F32, {1, 1, 2, 3}, {0, 0, 1, 0, 0, 0});
  ir::Attrs attrs{{"kernel_shape", Ints{2, 3}}};
  EXPECT_EQ(run_op("max_pool", {&x}, attrs, 2)->at(1).integer(0), 2);
  attrs.set("storage_order", int64_t{1});
  EXPECT_EQ(run_op("max_pool", {&x}, attrs, 2)->at(1).integer(0), 4);
}

TEST(MaxPool, AcceptsAWindowThatOnlyRoundingUpAdmits) {
  const Tensor x = Tensor::of<double>(DType::F32, {1, 1, 2}, {3, 5});
  ir::Attrs attrs{{"kernel_shape", Ints{3}}, {"strides", Ints{2}}, {"ceil_mode", int64_t{1}}};
  const auto y = run_op1("max_pool", {&x}, attrs);
  ASSERT_TRUE(y.ok()) << y.error().to_string();
  EXPECT_EQ(y->to_reals(), (std::vector<double>{5}));
  attrs.erase("ceil_mode");
  EXPECT_FALSE(run_op1("max_pool", {&x}, attrs).ok());
}

TEST(MaxPool, KeepsNotANumber) {
  const Tensor x = Tensor::of<double>(DType::F32, {1, 1, 3}, {3, std::nan(""), 5});
  const auto y = run_op1("max_pool", {&x}, {{"kernel_shape", Ints{2}}});
  ASSERT_TRUE(y.ok());
  EXPECT_TRUE(std::isnan(y->real(0)) && std::isnan(y->real(1)));
}

TEST(MaxUnpool, ChecksItsIndices) {
  const Tensor x = Tensor::of<double>(DType::F32, {1, 1, 2}, {1, 2});
  const ir::Attrs attrs{{"kernel_shape", Ints{2}}, {"strides", Ints{2}}};
  Tensor i = Tensor::of<int64_t>(DType::I64, {1, 1, 2}, {1, 2});
  EXPECT_EQ(run_op1("max_unpool", {&x, &i}, attrs)->to_reals(), (std::vector<double>{0, 1, 2, 0}));
  for (int64_t bad : {int64_t{-1}, int64_t{4}, INT64_MAX}) {
    i = Tensor::of<int64_t>(DType::I64, {1, 1, 2}, {1, bad});
    EXPECT_FALSE(run_op1("max_unpool", {&x, &i}, attrs).ok());
  }
  const Tensor shape = Tensor::ints({1, 1, -4});
  i = Tensor::of<int64_t>(DType::I64, {1, 1, 2}, {1, 2});
  EXPECT_FALSE(run_op1("max_unpool", {&x, &i, &shape}, attrs).ok());
}

TEST(Pools, RefuseAttributesWithoutMeaning) {
  const Tensor x(DType::F32, {1, 1, 4, 4});
  const ir::Attrs cases[] = {
      {},
      {{"kernel_shape", Ints{2}}},
      {{"kernel_shape", Ints{0, 2}}},
      {{"kernel_shape", Ints{-1, 2}}},
      {{"kernel_shape", Ints{INT64_MAX, INT64_MAX}}},
      {{"kernel_shape", Ints{1 << 20, 1 << 20}}, {"pads", Ints{1 << 19, 1 << 19, 1 << 19, 1 << 19}}},
      {{"kernel_shape", Ints{2, 2}}, {"strides", Ints{0, 0}}},
      {{"kernel_shape", Ints{2, 2}}, {"pads", Ints{2, 0, 0, 0}}},
      {{"kernel_shape", Ints{2, 2}}, {"pads", Ints{0, 0, 0, -1}}},
      {{"kernel_shape", Ints{5, 5}}},
      {{"kernel_shape", Ints{2, 2}}, {"dilations", Ints{INT64_MAX, 1}}},
  };
  for (const ir::Attrs& a : cases)
    for (const char* op : {"max_pool", "average_pool", "lp_pool"}) EXPECT_FALSE(run_op1(op, {&x}, a).ok());
  for (int64_t p : {int64_t{0}, int64_t{-2}})
    EXPECT_FALSE(run_op1("lp_pool", {&x}, {{"kernel_shape", Ints{2, 2}}, {"p", p}}).ok());
}

}  // namespace
}  // namespace isomer
