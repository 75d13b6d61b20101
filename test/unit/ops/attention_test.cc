// Attention and rotary positions against plain loops.
#include "test/unit/ops/one_node.h"

namespace isomer {
namespace {

using Ints = std::vector<int64_t>;

// y[b,h,i,:] of q [B,H,S,D], k [B,K,L,D], v [B,K,L,E]; `bias(b,h,i,j)` is added to the scores.
template <class Bias>
std::vector<double> loops(const Tensor& q, const Tensor& k, const Tensor& v, double scale, const Bias& bias) {
  const int64_t B = q.dims()[0], H = q.dims()[1], S = q.dims()[2], D = q.dims()[3];
  const int64_t K = k.dims()[1], L = k.dims()[2], E = v.dims()[3];
  std::vector<double> y;
  for (int64_t b = 0; b < B; ++b)
    for (int64_t h = 0; h < H; ++h)
      for (int64_t i = 0; i < S; ++i) {
        const int64_t g = h / (H / K);
        std::vector<double> s(static_cast<size_t>(L));
        double sum = 0;
        for (int64_t j = 0; j < L; ++j) {
          double dot = 0;
          for (int64_t d = 0; d < D; ++d)
            dot += q.real(((b * H + h) * S + i) * D + d) * k.real(((b * K + g) * L + j) * D + d);
          s[static_cast<size_t>(j)] = std::exp(dot * scale + bias(b, h, i, j));
          sum += s[static_cast<size_t>(j)];
        }
        if (sum == 0) sum = 1;  // no key at all: zeros
        for (int64_t e = 0; e < E; ++e) {
          double out = 0;
          for (int64_t j = 0; j < L; ++j)
            out += s[static_cast<size_t>(j)] / sum * v.real(((b * K + g) * L + j) * E + e);
          y.push_back(out);
        }
      }
  return y;
}

// [B,H,S,D] -> [B,S,H*D]
Tensor flat(const Tensor& t) {
  const Ints& d = t.dims();
  Tensor out(t.dtype(), {d[0], d[2], d[1] * d[3]});
  for (int64_t b = 0; b < d[0]; ++b)
    for (int64_t h = 0; h < d[1]; ++h)
      for (int64_t s = 0; s < d[2]; ++s)
        for (int64_t e = 0; e < d[3]; ++e)
          out.set_real(((b * d[2] + s) * d[1] + h) * d[3] + e, t.real(((b * d[1] + h) * d[2] + s) * d[3] + e));
  return out;
}

const auto no_bias = [](int64_t, int64_t, int64_t, int64_t) { return 0.0; };
const auto causal_bias = [](int64_t, int64_t, int64_t i, int64_t j) { return j <= i ? 0.0 : -INFINITY; };

TEST(Attention, AgreesWithLoops) {
  const Tensor q = noise({2, 4, 3, 2}, 1), k = noise({2, 2, 3, 2}, 2), v = noise({2, 2, 3, 5}, 3);
  auto y = run_one("attention", {q, k, v});
  ASSERT_TRUE(y.ok()) << y.error().to_string();
  expect_near(y->at(0), loops(q, k, v, 1 / std::sqrt(2.0), no_bias));
  y = run_one("attention", {q, k, v}, {{"is_causal", int64_t{1}}, {"scale", 0.3}});
  ASSERT_TRUE(y.ok()) << y.error().to_string();
  expect_near(y->at(0), loops(q, k, v, 0.3, causal_bias));
  const Tensor mask = noise({3, 3}, 4);
  y = run_one("attention", {q, k, v, mask});
  ASSERT_TRUE(y.ok()) << y.error().to_string();
  expect_near(y->at(0), loops(q, k, v, 1 / std::sqrt(2.0),
                              [&](int64_t, int64_t, int64_t i, int64_t j) { return mask.real(i * 3 + j); }));
}

TEST(Attention, BendsScoresBeforeItMasks) {
  const Tensor q = noise({1, 1, 3, 2}, 1), k = noise({1, 1, 3, 2}, 2);
  std::vector<std::vector<double>> stage;
  for (int64_t mode : {0, 1, 2, 3}) {
    const auto y = run_one("attention", {q, k, k},
                           {{"is_causal", int64_t{1}}, {"softcap", 0.5}, {"qk_matmul_output_mode", mode}}, 4);
    ASSERT_TRUE(y.ok()) << y.error().to_string();
    stage.push_back(y->at(3).to_reals());
  }
  for (size_t i = 0; i < 9; ++i) {
    const bool seen = i % 3 <= i / 3;
    EXPECT_NEAR(stage[1][i], 0.5 * std::tanh(stage[0][i] / 0.5), 1e-6);
    EXPECT_EQ(stage[2][i], seen ? stage[1][i] : -INFINITY);
    EXPECT_EQ(stage[3][i] > 0, seen);
  }
}

TEST(Attention, TakesFlatHeads) {
  const Tensor q = noise({2, 4, 3, 2}, 1), k = noise({2, 2, 5, 2}, 2), v = noise({2, 2, 5, 3}, 3);
  const auto y =
      run_one("attention", {flat(q), flat(k), flat(v)}, {{"q_num_heads", int64_t{4}}, {"kv_num_heads", int64_t{2}}});
  ASSERT_TRUE(y.ok()) << y.error().to_string();
  EXPECT_EQ(y->at(0).dims(), (Ints{2, 3, 12}));
  expect_near(y->at(0),
              flat(Tensor::of(DType::F32, {2, 4, 3, 3}, loops(q, k, v, 1 / std::sqrt(2.0), no_bias))).to_reals());
}

TEST(Attention, ContinuesThePast) {
  const Tensor q = noise({1, 1, 2, 2}, 1), k = noise({1, 1, 2, 2}, 2), v = noise({1, 1, 2, 2}, 3);
  const Tensor pk = noise({1, 1, 3, 2}, 4), pv = noise({1, 1, 3, 2}, 5);
  const auto y = run_one("attention", {q, k, v, std::nullopt, pk, pv}, {{"is_causal", int64_t{1}}}, 4);
  ASSERT_TRUE(y.ok()) << y.error().to_string();
  EXPECT_EQ(y->at(1).dims(), (Ints{1, 1, 5, 2}));
  EXPECT_EQ(y->at(3).dims(), (Ints{1, 1, 2, 5}));
  expect_near(y->at(0), loops(q, y->at(1), y->at(2), 1 / std::sqrt(2.0),
                              [](int64_t, int64_t, int64_t i, int64_t j) { return j <= i + 3 ? 0.0 : -INFINITY; }));
}

TEST(Attention, GivesZerosWhereNothingIsAttendedTo) {
  const Tensor q = noise({1, 2, 2, 4}, 1), k = noise({1, 2, 3, 4}, 2), v = noise({1, 2, 3, 4}, 3);
  const Tensor keep = Tensor::of<int64_t>(DType::Bool, {2, 3}, {0, 0, 0, 1, 0, 1});
  const auto bias = [&](int64_t, int64_t, int64_t i, int64_t j) { return keep.integer(i * 3 + j) ? 0.0 : -INFINITY; };
  auto y = run_one("attention", {q, k, v, keep}, {{"qk_matmul_output_mode", int64_t{3}}}, 4);
  ASSERT_TRUE(y.ok()) << y.error().to_string();
  expect_near(y->at(0), loops(q, k, v, 0.5, bias));
  for (int64_t j = 0; j < 3; ++j) EXPECT_EQ(y->at(3).real(j), 0);
  // The same as numbers that are added.
  y = run_one("attention",
              {q, k, v, Tensor::of<double>(DType::F32, {2, 3}, {-INFINITY, -INFINITY, -INFINITY, 0, -INFINITY, 0})});
  ASSERT_TRUE(y.ok()) << y.error().to_string();
  expect_near(y->at(0), loops(q, k, v, 0.5, bias));
}

TEST(Attention, KeepsAwayKeysBehindItsMask) {
  const Tensor q = noise({1, 1, 2, 4}, 1), k = noise({1, 1, 5, 4}, 2), v = noise({1, 1, 5, 4}, 3);
  for (const DType type : {DType::F32, DType::I32}) {
    const auto y = run_one("attention", {q, k, v, Tensor::of<double>(type, {2, 3}, {0, 1, 2, 1, 0, 3})});
    ASSERT_TRUE(y.ok()) << y.error().to_string();
    const double bias[] = {0, 1, 2, 1, 0, 3};
    expect_near(y->at(0), loops(q, k, v, 0.5, [&](int64_t, int64_t, int64_t i, int64_t j) {
                  return j < 3 ? bias[i * 3 + j] : -INFINITY;
                }));
  }
}

TEST(Attention, SeesAWindowAroundItsPlace) {
  const Tensor q = noise({1, 1, 4, 4}, 1), k = noise({1, 1, 6, 4}, 2), v = noise({1, 1, 6, 4}, 3);
  const auto y = run_one("attention", {q, k, v}, {{"left_window_size", int64_t{2}}, {"right_window_size", int64_t{1}}});
  ASSERT_TRUE(y.ok()) << y.error().to_string();
  expect_near(y->at(0), loops(q, k, v, 0.5, [](int64_t, int64_t, int64_t i, int64_t j) {
                return i - 2 <= j && j <= i + 1 ? 0.0 : -INFINITY;
              }));
  EXPECT_FALSE(run_one("attention", {q, k, v}, {{"left_window_size", int64_t{-2}}}).ok());
}

TEST(Attention, EndsWhereASequenceEnds) {
  const Tensor q = noise({2, 1, 2, 4}, 1), k = noise({2, 1, 5, 4}, 2), v = noise({2, 1, 5, 4}, 3);
  const int64_t lengths[] = {4, 1};
  const Tensor ends = Tensor::of<int64_t>(DType::I64, {2}, {4, 1});
  const auto y =
      run_one("attention", {q, k, v, std::nullopt, std::nullopt, std::nullopt, ends}, {{"is_causal", int64_t{1}}});
  ASSERT_TRUE(y.ok()) << y.error().to_string();
  // The last query stands at the last key; of the second sequence the first query stands before all keys.
  expect_near(y->at(0), loops(q, k, v, 0.5, [&](int64_t b, int64_t, int64_t i, int64_t j) {
                return j <= i + lengths[b] - 2 ? 0.0 : -INFINITY;
              }));
}

TEST(Attention, RefusesWhatDoesNotFit) {
  const Tensor q = noise({2, 3, 3, 2}, 1), k = noise({2, 2, 3, 2}, 2);
  EXPECT_FALSE(run_one("attention", {q, k, k}).ok());
  EXPECT_FALSE(run_one("attention", {flat(q), flat(k), flat(k)}).ok());
  EXPECT_FALSE(
      run_one("attention", {flat(q), flat(k), flat(k)}, {{"q_num_heads", int64_t{0}}, {"kv_num_heads", int64_t{2}}})
          .ok());
  EXPECT_FALSE(run_one("attention", {k, k, k}, {{"qk_matmul_output_mode", int64_t{4}}}).ok());
  EXPECT_FALSE(run_one("attention", {k, k, k, std::nullopt, k}).ok());
}

TEST(MultiHeadAttention, KnowsItsMasksAndBiases) {
  const Tensor q = noise({2, 2, 3, 2}, 1), k = noise({2, 2, 4, 2}, 2), v = noise({2, 2, 4, 3}, 3);
  const ir::Attrs heads{{"num_heads", int64_t{2}}};
  const auto lengths = [](int64_t b, int64_t, int64_t, int64_t j) { return j < (b == 0 ? 2 : 4) ? 0.0 : -10000; };
  const auto expected =
      flat(Tensor::of(DType::F32, {2, 2, 3, 3}, loops(q, k, v, 1 / std::sqrt(2.0), lengths))).to_reals();
  for (const Tensor& mask :
       {Tensor::of<int64_t>(DType::I32, {2}, {2, 4}), Tensor::of<int64_t>(DType::I32, {4}, {2, 4, 0, 0}),
        Tensor::of<int64_t>(DType::I32, {8}, {2, 4, 0, 3, 6, 0, 2, 6}),
        Tensor::of<int64_t>(DType::I32, {2, 4}, {1, 1, 0, 0, 1, 1, 1, 1})}) {
    const auto y = run_one("ms_multi_head_attention", {flat(q), flat(k), flat(v), std::nullopt, mask}, heads);
    ASSERT_TRUE(y.ok()) << y.error().to_string();
    expect_near(y->at(0), expected);
  }
  const Tensor zero(DType::F32, {14});
  const auto y = run_one("ms_multi_head_attention", {flat(q), flat(k), flat(v), zero}, heads, 3);
  ASSERT_TRUE(y.ok()) << y.error().to_string();
  expect_near(y->at(0),
              flat(Tensor::of(DType::F32, {2, 2, 3, 3}, loops(q, k, v, 1 / std::sqrt(2.0), no_bias))).to_reals());
  EXPECT_EQ(y->at(1), k);
  EXPECT_FALSE(run_one("ms_multi_head_attention", {flat(q), flat(k), flat(v)}, {{"num_heads", int64_t{-1}}}).ok());
}

TEST(MultiHeadAttention, AddsNoBiasToKeysThatComeByHeads) {
  const Tensor q = noise({1, 2, 3, 2}, 1), k = noise({1, 2, 4, 2}, 2);
  Tensor bias(DType::F32, {12}), moved = flat(q);
  for (int64_t i = 0; i < 12; ++i) bias.set_real(i, 0.25);
  for (int64_t i = 0; i < moved.size(); ++i) moved.set_real(i, moved.real(i) + 0.25);
  const ir::Attrs heads{{"num_heads", int64_t{2}}};
  const auto y = run_one("ms_multi_head_attention", {flat(q), k, k, bias}, heads);
  const auto z = run_one("ms_multi_head_attention", {moved, k, k}, heads);
  ASSERT_TRUE(y.ok()) << y.error().to_string();
  ASSERT_TRUE(z.ok()) << z.error().to_string();
  expect_near(y->at(0), z->at(0).to_reals());
}

TEST(MergedAttention, PrefersAMaskedKeyToALaterOne) {
  const Tensor x = noise({1, 2, 2}, 1);
  Tensor w(DType::F32, {2, 6});
  for (int64_t i = 0; i < 2; ++i)
    for (int64_t p = 0; p < 3; ++p) w.set_real(i * 6 + p * 2 + i, 1);
  const auto y =
      run_one("ms_attention", {x, w, Tensor(DType::F32, {6}), Tensor::of<int64_t>(DType::I32, {1, 2}, {0, 1})},
              {{"num_heads", int64_t{1}}, {"unidirectional", int64_t{1}}});
  ASSERT_TRUE(y.ok()) << y.error().to_string();
  expect_near(y->at(0), x.to_reals());  // the first row has nothing else to see, the second drops the first
}

TEST(MergedAttention, ProjectsWithOneProduct) {
  const Tensor x = noise({2, 3, 4}, 1);
  // Queries and keys are the input, values its double.
  Tensor w(DType::F32, {4, 12});
  for (int64_t i = 0; i < 4; ++i)
    for (int64_t p = 0; p < 3; ++p) w.set_real(i * 12 + p * 4 + i, p == 2 ? 2 : 1);
  const auto y = run_one("ms_attention", {x, w, Tensor(DType::F32, {12})},
                         {{"num_heads", int64_t{1}}, {"unidirectional", int64_t{1}}}, 2);
  ASSERT_TRUE(y.ok()) << y.error().to_string();
  Tensor v = x.reshaped({2, 1, 3, 4}), twice(DType::F32, {2, 1, 3, 4});
  for (int64_t i = 0; i < v.size(); ++i) twice.set_real(i, 2 * v.real(i));
  expect_near(y->at(0), loops(v, v, twice, 0.5, causal_bias));
  EXPECT_EQ(y->at(1).dims(), (Ints{2, 2, 1, 3, 4}));
}

TEST(GroupQueryAttention, IsCausalOverThePast) {
  const Tensor q = noise({1, 4, 2, 2}, 1), k = noise({1, 2, 2, 2}, 2), v = noise({1, 2, 2, 2}, 3);
  const Tensor pk = noise({1, 2, 3, 2}, 4), pv = noise({1, 2, 3, 2}, 5);
  const auto y = run_one("ms_group_query_attention",
                         {flat(q), flat(k), flat(v), pk, pv, Tensor::of<int64_t>(DType::I32, {1}, {4}),
                          Tensor::of<int64_t>(DType::I32, {}, {5})},
                         {{"num_heads", int64_t{4}}, {"kv_num_heads", int64_t{2}}}, 3);
  ASSERT_TRUE(y.ok()) << y.error().to_string();
  expect_near(
      y->at(0),
      flat(Tensor::of(DType::F32, {1, 4, 2, 2},
                      loops(q, y->at(1), y->at(2), 1 / std::sqrt(2.0),
                            [](int64_t, int64_t, int64_t i, int64_t j) { return j <= i + 3 ? 0.0 : -INFINITY; })))
          .to_reals());
}

TEST(GroupQueryAttention, UnpacksNarrowsAndSmooths) {
  const Tensor q = noise({1, 4, 3, 2}, 1), k = noise({1, 2, 3, 2}, 2), v = noise({1, 2, 3, 2}, 3);
  const Tensor last = Tensor::of<int64_t>(DType::I32, {1}, {2}), total = Tensor::of<int64_t>(DType::I32, {}, {3});
  ir::Attrs attrs{{"num_heads", int64_t{4}}, {"kv_num_heads", int64_t{2}}, {"local_window_size", int64_t{2}}};
  const auto y =
      run_one("ms_group_query_attention", {flat(q), flat(k), flat(v), std::nullopt, std::nullopt, last, total}, attrs);
  ASSERT_TRUE(y.ok()) << y.error().to_string();
  const auto window = [](int64_t, int64_t, int64_t i, int64_t j) { return j <= i && j > i - 2 ? 0.0 : -INFINITY; };
  const std::vector<double> by_heads = loops(q, k, v, 1 / std::sqrt(2.0), window);
  expect_near(y->at(0), flat(Tensor::of(DType::F32, {1, 4, 3, 2}, by_heads)).to_reals());

  Tensor packed(DType::F32, {1, 3, 16});
  const Tensor parts[] = {flat(q), flat(k), flat(v)};
  for (int64_t s = 0; s < 3; ++s)
    for (int64_t e = 0; e < 16; ++e)
      packed.set_real(s * 16 + e, e < 8 ? parts[0].real(s * 8 + e) : parts[e < 12 ? 1 : 2].real(s * 4 + e % 4));
  const auto p = run_one("ms_group_query_attention",
                         {packed, std::nullopt, std::nullopt, std::nullopt, std::nullopt, last, total}, attrs);
  ASSERT_TRUE(p.ok()) << p.error().to_string();
  expect_near(p->at(0), y->at(0).to_reals());

  // With all scores 0 a query that sees n keys gives each of them 1 / (n + 1).
  attrs.set("smooth_softmax", int64_t{1});
  const auto z =
      run_one("ms_group_query_attention",
              {Tensor(DType::F32, {1, 3, 8}), flat(k), flat(v), std::nullopt, std::nullopt, last, total}, attrs);
  ASSERT_TRUE(z.ok()) << z.error().to_string();
  EXPECT_NEAR(z->at(0).real(0), v.real(0) / 2, 1e-6);
  EXPECT_NEAR(z->at(0).real(8), (v.real(0) + v.real(2)) / 3, 1e-6);
}

TEST(RotaryEmbedding, TurnsPairs) {
  const Tensor x = noise({1, 1, 2, 4}, 1);
  const Tensor cos = noise({1, 2, 2}, 2), sin = noise({1, 2, 2}, 3);
  for (int64_t interleaved : {0, 1}) {
    std::vector<double> expected(8);
    for (int64_t s = 0; s < 2; ++s)
      for (int64_t p = 0; p < 2; ++p) {
        const int64_t i = s * 4 + (interleaved ? 2 * p : p), j = s * 4 + (interleaved ? 2 * p + 1 : p + 2);
        const double c = cos.real(s * 2 + p), n = sin.real(s * 2 + p);
        expected[static_cast<size_t>(i)] = c * x.real(i) - n * x.real(j);
        expected[static_cast<size_t>(j)] = n * x.real(i) + c * x.real(j);
      }
    const ir::Attrs attrs{{"interleaved", interleaved}};
    const auto y = run_one("rotary_embedding", {x, cos, sin}, attrs);
    ASSERT_TRUE(y.ok()) << y.error().to_string();
    expect_near(y->at(0), expected);
    const auto m =
        run_one("ms_rotary_embedding", {x, Tensor::ints({0}), cos.reshaped({2, 2}), sin.reshaped({2, 2})}, attrs);
    ASSERT_TRUE(m.ok()) << m.error().to_string();
    expect_near(m->at(0), expected);
  }
  EXPECT_FALSE(run_one("rotary_embedding", {x, cos, sin}, {{"rotary_embedding_dim", int64_t{3}}}).ok());
  EXPECT_FALSE(run_one("rotary_embedding", {x, cos, sin}, {{"rotary_embedding_dim", INT64_MAX}}).ok());
}

}  // namespace
}  // namespace isomer
