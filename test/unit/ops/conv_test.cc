// Convolutions against plain loops over random geometry, and their answers to attributes no model should have.
#include <gtest/gtest.h>

#include <cmath>

#include "base/random.h"
#include "run_op.h"

namespace isomer {
namespace {

using Ints = std::vector<int64_t>;

Tensor random_tensor(Random& r, Ints dims, DType type = DType::F32) {
  Tensor t(type, std::move(dims));
  for (int64_t i = 0; i < t.size(); ++i) t.set_integer(i, r.between(-4, 4));
  return t;
}

// Geometry of a random two-dimensional convolution.
struct Geometry {
  int64_t n, groups, in_per_group, out_per_group;
  Ints in, k, s, d, p;  // p: begin, begin, end, end
};

Geometry random_geometry(Random& r) {
  Geometry g;
  g.n = r.between(1, 2);
  g.groups = r.between(1, 3);
  g.in_per_group = r.between(1, 2);
  g.out_per_group = r.between(1, 2);
  for (int a = 0; a < 2; ++a) {
    g.k.push_back(r.between(1, 3));
    g.s.push_back(r.between(1, 3));
    g.d.push_back(r.between(1, 3));
    g.in.push_back((g.k.back() - 1) * g.d.back() + r.between(1, 4));
  }
  for (int a = 0; a < 4; ++a) g.p.push_back(r.between(0, 2));
  return g;
}

ir::Attrs attrs_of(const Geometry& g) {
  return {{"strides", g.s}, {"dilations", g.d}, {"pads", g.p}, {"group", g.groups}};
}

// Index of [a, b, c, d] in a tensor of rank 4.
int64_t at(const Tensor& t, int64_t a, int64_t b, int64_t c, int64_t d) {
  return ((a * t.dims()[1] + b) * t.dims()[2] + c) * t.dims()[3] + d;
}

// Calls f(n, oc, ic of its group, oh, ow, kh, kw, ih, iw) for every product of a convolution from `in` to `out`.
template <class F>
void each_product(const Geometry& g, const Ints& in, const Ints& out, F f) {
  for (int64_t n = 0; n < g.n; ++n)
    for (int64_t oc = 0; oc < g.groups * g.out_per_group; ++oc)
      for (int64_t ic = 0; ic < g.in_per_group; ++ic)
        for (int64_t oh = 0; oh < out[0]; ++oh)
          for (int64_t ow = 0; ow < out[1]; ++ow)
            for (int64_t kh = 0; kh < g.k[0]; ++kh)
              for (int64_t kw = 0; kw < g.k[1]; ++kw) {
                const int64_t ih = oh * g.s[0] + kh * g.d[0] - g.p[0], iw = ow * g.s[1] + kw * g.d[1] - g.p[1];
                if (ih >= 0 && iw >= 0 && ih < in[0] && iw < in[1]) f(n, oc, ic, oh, ow, kh, kw, ih, iw);
              }
}

TEST(Conv, AgreesWithPlainLoops) {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE(seed);
    Random r(seed);
    const Geometry g = random_geometry(r);
    const Tensor x = random_tensor(r, {g.n, g.groups * g.in_per_group, g.in[0], g.in[1]});
    const Tensor w = random_tensor(r, {g.groups * g.out_per_group, g.in_per_group, g.k[0], g.k[1]});
    const Tensor bias = random_tensor(r, {g.groups * g.out_per_group});
    Ints out;
    for (size_t a = 0; a < 2; ++a)
      out.push_back((g.in[a] + g.p[a] + g.p[a + 2] - (g.k[a] - 1) * g.d[a] - 1) / g.s[a] + 1);
    Tensor y(DType::F32, {g.n, g.groups * g.out_per_group, out[0], out[1]});
    const int64_t plane = out[0] * out[1];
    for (int64_t i = 0; i < y.size(); ++i) y.set_real(i, bias.real(i / plane % bias.size()));
    each_product(
        g, g.in, out,
        [&](int64_t n, int64_t oc, int64_t ic, int64_t oh, int64_t ow, int64_t kh, int64_t kw, int64_t ih, int64_t iw) {
          const int64_t o = at(y, n, oc, oh, ow);
          y.set_real(o, y.real(o) + x.real(at(x, n, oc / g.out_per_group * g.in_per_group + ic, ih, iw)) *
                                        w.real(at(w, oc, ic, kh, kw)));
        });
    const auto got = run_op1("conv", {&x, &w, &bias}, attrs_of(g));
    ASSERT_TRUE(got.ok()) << got.error().to_string();
    EXPECT_EQ(got->dims(), y.dims());
    EXPECT_EQ(got->to_reals(), y.to_reals());
  }
}

// The transposed convolution is the adjoint: what conv gathers from an input element, it scatters there.
TEST(ConvTranspose, AgreesWithScatteringLoops) {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE(seed);
    Random r(seed);
    const Geometry g = random_geometry(r);
    Ints small = {r.between(1, 3), r.between(1, 3)}, more = {r.between(0, 1), r.between(0, 1)}, large;
    bool empty = false;
    for (size_t a = 0; a < 2; ++a) {
      large.push_back((small[a] - 1) * g.s[a] + more[a] + (g.k[a] - 1) * g.d[a] + 1 - g.p[a] - g.p[a + 2]);
      empty |= large[a] < 1;
    }
    const Tensor x = random_tensor(r, {g.n, g.groups * g.out_per_group, small[0], small[1]});
    const Tensor w = random_tensor(r, {g.groups * g.out_per_group, g.in_per_group, g.k[0], g.k[1]});
    ir::Attrs attrs = attrs_of(g);
    attrs.set("output_padding", more);
    const auto got = run_op1("conv_transpose", {&x, &w}, attrs);
    EXPECT_EQ(got.ok(), !empty);
    if (empty) continue;
    Tensor y(DType::F32, {g.n, g.groups * g.in_per_group, large[0], large[1]});
    each_product(
        g, large, small,
        [&](int64_t n, int64_t oc, int64_t ic, int64_t oh, int64_t ow, int64_t kh, int64_t kw, int64_t ih, int64_t iw) {
          const int64_t i = at(y, n, oc / g.out_per_group * g.in_per_group + ic, ih, iw);
          y.set_real(i, y.real(i) + x.real(at(x, n, oc, oh, ow)) * w.real(at(w, oc, ic, kh, kw)));
        });
    EXPECT_EQ(got->dims(), y.dims());
    EXPECT_EQ(got->to_reals(), y.to_reals());
  }
}

TEST(DeformConv, WithoutOffsetsIsConv) {
  Random r(7);
  const Tensor x = random_tensor(r, {1, 4, 5, 4}), w = random_tensor(r, {2, 2, 3, 2}), bias = random_tensor(r, {2});
  const ir::Attrs attrs{{"group", int64_t{2}}, {"pads", Ints{1, 0, 1, 1}}, {"strides", Ints{2, 1}}};
  const auto plain = run_op1("conv", {&x, &w, &bias}, attrs);
  ASSERT_TRUE(plain.ok()) << plain.error().to_string();
  ir::Attrs deform = attrs;
  deform.set("offset_group", int64_t{2});
  const Tensor zero(DType::F32, {1, 24, plain->dims()[2], plain->dims()[3]});
  const auto same = run_op1("deform_conv", {&x, &w, &zero, &bias}, deform);
  ASSERT_TRUE(same.ok()) << same.error().to_string();
  EXPECT_EQ(same->to_reals(), plain->to_reals());
}

TEST(DeformConv, ReadsBetweenElementsAndTreatsTheOutsideAsZero) {
  const Tensor x = Tensor::of<double>(DType::F32, {1, 1, 2, 2}, {1, 2, 3, 4});
  const Tensor w = Tensor::of<double>(DType::F32, {1, 1, 1, 1}, {1});
  // Offsets by row, then by column, for each of the four output positions.
  const Tensor offset = Tensor::of<double>(DType::F32, {1, 2, 2, 2}, {0.5, 0, -1, 9e30, 0.5, 0.5, -0.5, 0});
  const auto y = run_op1("deform_conv", {&x, &w, &offset});
  ASSERT_TRUE(y.ok()) << y.error().to_string();
  EXPECT_EQ(y->to_reals(), (std::vector<double>{2.5, 1, 0.5, 0}));
}

TEST(Conv, KeepsSymbolicSizes) {
  ir::GraphBuilder b(ops::table(), "g");
  const ir::Value x = *b.input("x", {DType::F32, {Dim::symbol("N"), 3, Dim::symbol("H"), 224}, nullptr});
  const ir::Value w = b.constant(Tensor(DType::F32, {8, 3, 3, 3}));
  const auto y = b.add1("conv", {x, w}, {{"strides", Ints{2, 2}}, {"pads", Ints{1, 1, 1, 1}}});
  ASSERT_TRUE(y.ok()) << y.error().to_string();
  EXPECT_EQ(b.type(*y).to_string(), "f32[N,8,floordiv(H-1,2)+1,112]");
}

struct Hostile {
  const char* op;
  ir::Attrs attrs;
  const char* says;
};

TEST(Conv, RefusesAttributesWithoutMeaning) {
  constexpr int64_t kHuge = int64_t{1} << 62;
  const Tensor x(DType::F32, {1, 2, 5, 5}), w(DType::F32, {2, 2, 3, 3});
  const Hostile cases[] = {
      {"conv", {{"strides", Ints{0, 1}}}, "strides"},
      {"conv", {{"strides", Ints{1, -1}}}, "strides"},
      {"conv", {{"strides", Ints{1}}}, "strides"},
      {"conv", {{"dilations", Ints{kHuge, 1}}}, "too large"},
      {"conv", {{"dilations", Ints{kHuge / 4, 1}}}, "larger than the padded input"},
      {"conv", {{"dilations", Ints{3, 3}}}, "larger than the padded input"},
      {"conv", {{"group", int64_t{0}}}, "group"},
      {"conv", {{"group", int64_t{-1}}}, "group"},
      {"conv", {{"group", int64_t{2}}}, "channels"},
      {"conv", {{"group", kHuge}}, "channels"},
      {"conv", {{"pads", Ints{-1, 0, 0, 0}}}, "negative"},
      {"conv", {{"pads", Ints{1, 1}}}, "pads"},
      {"conv", {{"pads", Ints{INT64_MAX, 0, INT64_MAX, 0}}}, "too large"},
      {"conv", {{"auto_pad", std::string("SAME")}}, "auto_pad"},
      {"conv", {{"kernel_shape", Ints{3}}}, "kernel_shape"},
      {"conv", {{"kernel_shape", Ints{3, 2}}}, "kernel_shape"},
      {"conv_transpose", {{"group", int64_t{3}}}, "groups"},
      {"conv_transpose", {{"strides", Ints{kHuge, kHuge}}}, "too large"},
      {"conv_transpose", {{"output_padding", Ints{-1, 0}}}, "output_padding"},
      {"conv_transpose", {{"output_shape", Ints{0, 5}}}, "extent 0"},
      {"conv_transpose", {{"pads", Ints{9, 9, 9, 9}}}, "reduce the pads"},
  };
  for (const Hostile& h : cases) {
    const auto y = run_op1(h.op, {&x, &w}, h.attrs);
    ASSERT_FALSE(y.ok()) << h.op << " " << h.says;
    EXPECT_NE(y.error().message.find(h.says), std::string::npos) << y.error().message;
  }
  const Tensor flat(DType::F32, {1, 2}), thin(DType::F32, {2, 2, 3});
  EXPECT_FALSE(run_op1("conv", {&flat, &w}).ok());
  EXPECT_FALSE(run_op1("conv", {&x, &thin}).ok());
  const Tensor bias(DType::F32, {3});
  EXPECT_FALSE(run_op1("conv", {&x, &w, &bias}).ok());
}

}  // namespace
}  // namespace isomer
