// RNN, GRU and LSTM against cells written as plain loops.
#include "test/unit/ops/one_node.h"

namespace isomer {
namespace {

using Ints = std::vector<int64_t>;
using Reals = std::vector<double>;

constexpr int64_t T = 4, B = 2, I = 3, H = 2;

struct Layer {
  Tensor x, w, r, b, h0, c0, p;
  std::vector<int64_t> lengths = {T, T};
  Layer(int64_t gates, int64_t directions)
      : x(noise({T, B, I}, 1)),
        w(noise({directions, gates * H, I}, 2)),
        r(noise({directions, gates * H, H}, 3)),
        b(noise({directions, 2 * gates * H}, 4)),
        h0(noise({directions, B, H}, 5)),
        c0(noise({directions, B, H}, 6)),
        p(noise({directions, 3 * H}, 7)) {}
  int64_t width() const { return w.dims()[1]; }
  double input(int64_t d, int64_t t, int64_t n, int64_t g) const {
    double s = b.real(d * 2 * width() + g);
    for (int64_t i = 0; i < I; ++i) s += x.real((t * B + n) * I + i) * w.real((d * width() + g) * I + i);
    return s;
  }
  double hidden(int64_t d, int64_t g, const Reals& h) const {
    double s = b.real(d * 2 * width() + width() + g);
    for (size_t i = 0; i < h.size(); ++i) s += h[i] * r.real((d * width() + g) * H + static_cast<int64_t>(i));
    return s;
  }
};

// step(d, t, n, h, c) advances the states of sequence n in place. Gives Y then Y_h.
template <class Step>
std::pair<Reals, Reals> loops(const Layer& l, int64_t directions, bool reverse, const Step& step) {
  Reals y(static_cast<size_t>(T * directions * B * H), 0), last;
  for (int64_t d = 0; d < directions; ++d)
    for (int64_t n = 0; n < B; ++n) {
      Reals h, c;
      for (int64_t k = 0; k < H; ++k) {
        h.push_back(l.h0.real((d * B + n) * H + k));
        c.push_back(l.c0.real((d * B + n) * H + k));
      }
      const int64_t length = l.lengths[static_cast<size_t>(n)];
      for (int64_t s = 0; s < length; ++s) {
        const int64_t t = reverse || d == 1 ? length - 1 - s : s;
        step(d, t, n, h, c);
        for (int64_t k = 0; k < H; ++k)
          y[static_cast<size_t>(((t * directions + d) * B + n) * H + k)] = h[static_cast<size_t>(k)];
      }
      last.insert(last.end(), h.begin(), h.end());
    }
  return {y, last};
}

TEST(Rnn, RunsInEveryDirection) {
  for (const auto& [direction, n] :
       {std::pair<std::string, int64_t>{"forward", 1}, {"reverse", 1}, {"bidirectional", 2}}) {
    Layer l(1, n);
    l.lengths = {T, 2};
    const auto [y, h] = loops(l, n, direction == "reverse", [&](int64_t d, int64_t t, int64_t s, Reals& hs, Reals&) {
      const Reals before = hs;
      for (int64_t k = 0; k < H; ++k)
        hs[static_cast<size_t>(k)] = std::tanh(l.input(d, t, s, k) + l.hidden(d, k, before));
    });
    const auto out = run_one("rnn", {l.x, l.w, l.r, l.b, Tensor::of<int64_t>(DType::I32, {2}, l.lengths), l.h0},
                             {{"direction", direction}, {"hidden_size", H}}, 2);
    ASSERT_TRUE(out.ok()) << out.error().to_string();
    EXPECT_EQ(out->at(0).dims(), (Ints{T, n, B, H}));
    expect_near(out->at(0), y);
    expect_near(out->at(1), h);
  }
}

TEST(Gru, ResetsBeforeAndAfterTheProduct) {
  for (int64_t after : {0, 1}) {
    const Layer l(3, 2);
    const auto [y, h] = loops(l, 2, false, [&](int64_t d, int64_t t, int64_t n, Reals& hs, Reals&) {
      Reals z, r, reset, next;
      for (int64_t k = 0; k < H; ++k) {
        z.push_back(sigmoid(l.input(d, t, n, k) + l.hidden(d, k, hs)));
        r.push_back(sigmoid(l.input(d, t, n, H + k) + l.hidden(d, H + k, hs)));
        reset.push_back(r.back() * hs[static_cast<size_t>(k)]);
      }
      for (int64_t k = 0; k < H; ++k) {
        const auto i = static_cast<size_t>(k);
        const double inner = after ? r[i] * l.hidden(d, 2 * H + k, hs) : l.hidden(d, 2 * H + k, reset);
        next.push_back((1 - z[i]) * std::tanh(l.input(d, t, n, 2 * H + k) + inner) + z[i] * hs[i]);
      }
      hs = next;
    });
    const auto out = run_one("gru", {l.x, l.w, l.r, l.b, std::nullopt, l.h0},
                             {{"direction", std::string("bidirectional")}, {"linear_before_reset", after}}, 2);
    ASSERT_TRUE(out.ok()) << out.error().to_string();
    expect_near(out->at(0), y);
    expect_near(out->at(1), h);
  }
}

TEST(Lstm, HasPeepholesClipsAndOtherActivations) {
  for (int64_t coupled : {0, 1}) {
    const Layer l(4, 1);
    const double bound = 0.6;
    const auto clip = [&](double v) { return std::min(bound, std::max(-bound, v)); };
    const auto f = [&](double v) { return std::min(1.0, std::max(0.0, 0.3 * clip(v) + 0.4)); };
    const auto [y, h] = loops(l, 1, true, [&](int64_t d, int64_t t, int64_t n, Reals& hs, Reals& cs) {
      const Reals before = hs;
      for (int64_t k = 0; k < H; ++k) {
        const auto i = static_cast<size_t>(k);
        const auto gate = [&](int64_t g) { return l.input(d, t, n, g * H + k) + l.hidden(d, g * H + k, before); };
        const double in = f(gate(0) + l.p.real(k) * cs[i]);
        const double forget = coupled ? 1 - in : f(gate(2) + l.p.real(2 * H + k) * cs[i]);
        cs[i] = forget * cs[i] + in * std::tanh(clip(gate(3)));
        hs[i] = f(gate(1) + l.p.real(H + k) * cs[i]) * std::max(0.0, clip(cs[i]));
      }
    });
    const ir::Attrs attrs{{"direction", std::string("reverse")},
                          {"clip", bound},
                          {"input_forget", coupled},
                          {"activations", std::vector<std::string>{"HardSigmoid", "Tanh", "Relu"}},
                          {"activation_alpha", Reals{0.3}},
                          {"activation_beta", Reals{0.4}}};
    const auto out = run_one("lstm", {l.x, l.w, l.r, l.b, std::nullopt, l.h0, l.c0, l.p}, attrs, 3);
    ASSERT_TRUE(out.ok()) << out.error().to_string();
    expect_near(out->at(0), y);
    expect_near(out->at(1), h);
  }
}

TEST(Recurrent, InfersTypesWithoutTheLength) {
  ir::GraphBuilder b(ops::table(), "test");
  const Type x{DType::F32, {Dim::symbol("T"), Dim::symbol("B"), 3}, nullptr};
  const ir::Value v = *b.input("x", x);
  const ir::Value w = b.constant(Tensor(DType::F32, {1, 8, 3})), r = b.constant(Tensor(DType::F32, {1, 8, 2}));
  const auto y = b.add("lstm", {v, w, r}, {}, {}, 3);
  ASSERT_TRUE(y.ok()) << y.error().to_string();
  EXPECT_EQ(b.type(y->at(0)).to_string(), "f32[T,1,B,2]");
  EXPECT_EQ(b.type(y->at(2)).to_string(), "f32[1,B,2]");
}

TEST(Recurrent, RefusesWhatDoesNotFit) {
  const Layer l(1, 1);
  const auto fails = [&](const ir::Attrs& attrs) { return !run_one("rnn", {l.x, l.w, l.r}, attrs, 2).ok(); };
  EXPECT_TRUE(fails({{"hidden_size", INT64_MAX}}));
  EXPECT_TRUE(fails({{"hidden_size", int64_t{-1}}}));
  EXPECT_TRUE(fails({{"direction", std::string("sideways")}}));
  EXPECT_TRUE(fails({{"direction", std::string("bidirectional")}}));
  EXPECT_TRUE(fails({{"layout", int64_t{2}}}));
  EXPECT_TRUE(fails({{"activations", std::vector<std::string>{"Tanh", "Tanh"}}}));
  EXPECT_TRUE(fails({{"activations", std::vector<std::string>{"Nope"}}}));
  EXPECT_TRUE(fails({{"clip", -1.0}}));
  EXPECT_FALSE(run_one("rnn", {Tensor(DType::F32, {0, B, I}), l.w, l.r}, {}, 2).ok());
  EXPECT_FALSE(run_one("gru", {l.x, l.w, l.r}, {}, 2).ok());
}

}  // namespace
}  // namespace isomer
