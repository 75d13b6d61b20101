// Blocks of networks that look at sequences [n, s, d]: each takes one and gives one of the same width, in one of the
// spellings that frameworks export.
#pragma once

#include <cmath>

#include "test/architecture_parts.h"

namespace isomer::testing::token {

struct Heads {
  Value q, k, v;  // [n, h, s, d / h]; k may be turned already: [n, h, d / h, s]
  bool turned = false;
};

inline Value split_heads(Parts& p, Value x, int64_t heads, bool turned = false) {
  const int64_t s = p.dim(x, 1), d = p.dim(x, 2);
  const Value y = p.net.reshape(x, {0, p.random.flip() ? s : -1, heads, d / heads});
  return p.net.transpose(y, turned ? std::vector<int64_t>{0, 2, 3, 1} : std::vector<int64_t>{0, 2, 1, 3});
}

inline Heads separate_heads(Parts& p, Value x, Value memory, int64_t heads) {
  const int64_t d = p.dim(x, 2);
  Heads out;
  out.turned = p.random.flip();
  out.q = split_heads(p, p.dense(x, d), heads);
  out.k = split_heads(p, p.dense(memory, d), heads, out.turned);
  out.v = split_heads(p, p.dense(memory, d), heads);
  return out;
}

// One product for all three, taken apart by a split, or by a fifth axis.
inline Heads joined_heads(Parts& p, Value x, int64_t heads) {
  const int64_t s = p.dim(x, 1), d = p.dim(x, 2);
  const Value all = p.dense(x, 3 * d);
  if (p.random.flip()) {
    const auto parts = p.net.calls("split", {all}, {{"axis", int64_t{2}}, {"num_outputs", int64_t{3}}}, 3);
    return {split_heads(p, parts[0], heads), split_heads(p, parts[1], heads), split_heads(p, parts[2], heads)};
  }
  const Value five = p.net.transpose(p.net.reshape(all, {0, s, 3, heads, d / heads}), {2, 0, 3, 1, 4});
  Value parts[3];
  for (int64_t i = 0; i < 3; ++i)
    parts[i] = p.net.call("gather", {five, p.net.call("squeeze", {p.net.ints({i})})}, {{"axis", int64_t{0}}});
  return {parts[0], parts[1], parts[2]};
}

// Half of a head's numbers turned against the other half, as by rotary positions.
inline Value rotated(Parts& p, Value x) {
  const int64_t s = p.dim(x, 2), d = p.dim(x, 3);
  if (d % 2 != 0) return x;
  const Value a = p.slice(x, 3, 0, d / 2), b = p.slice(x, 3, d / 2, d);
  const Value turned = p.net.concat({p.net.call("neg", {b}), a}, 3);
  return p.net.add(p.net.mul(x, p.net.weight("cos", {1, 1, s, d}, 1)),
                   p.net.mul(turned, p.net.weight("sin", {1, 1, s, d}, 1)));
}

inline Value masked(Parts& p, Value scores) {
  const int64_t q = p.dim(scores, 2), k = p.dim(scores, 3);
  switch (p.random.below(4)) {
    case 0: return p.net.add(scores, p.net.weight("bias", {1, p.dim(scores, 1), q, k}, 1));
    case 1: {
      const Value keep = p.net.call("greater", {p.net.weight("mask", {1, 1, q, k}, 1), p.number(-0.7)});
      return p.net.call("where", {keep, scores, p.number(-1e4)});
    }
    case 2: return p.net.add(scores, p.net.weight("mask", {1, 1, 1, k}, 1));
    default: return scores;
  }
}

inline Value attend(Parts& p, Heads h) {
  const int64_t heads = p.dim(h.q, 1), s = p.dim(h.q, 2), d = p.dim(h.q, 3);
  const double scale = 1 / std::sqrt(static_cast<double>(d));
  const size_t where = p.random.below(3);
  if (where == 0) h.q = p.net.mul(h.q, p.number(scale));
  const Value k = h.turned ? h.k : p.net.transpose(h.k, {0, 1, 3, 2});
  Value scores = p.net.call("matmul", {h.q, k});
  if (where == 1) scores = p.net.mul(scores, p.number(scale));
  if (where == 2) scores = p.net.call("div", {scores, p.number(1 / scale)});
  const Value weights = p.net.call("softmax", {masked(p, scores)}, {{"axis", int64_t{-1}}});
  const Value seen = p.net.transpose(p.net.call("matmul", {weights, h.v}), {0, 2, 1, 3});
  return p.net.reshape(seen, {0, s, heads * d});
}

// Norm before or after, round what `inner` makes.
template <class F>
Value around(Parts& p, Value x, const F& inner) {
  if (p.random.flip()) return p.net.add(x, inner(p.row_norm(x)));
  const Value y = inner(x);
  return p.row_norm(p.random.flip() ? p.net.add(x, y) : p.net.add(y, x));
}

inline int64_t heads_of(Parts& p, Value x) {
  const int64_t h = p.one_of<int64_t>({1, 2, 3, 4});
  return p.dim(x, 2) % h == 0 ? h : 1;
}

inline Value self_attention(Parts& p, Value x) {
  return around(p, x, [&](Value y) {
    const int64_t heads = heads_of(p, x);
    Heads h = p.random.flip() ? separate_heads(p, y, y, heads) : joined_heads(p, y, heads);
    if (!h.turned && p.random.flip(0.3)) h.q = rotated(p, h.q), h.k = rotated(p, h.k);
    return p.dense(attend(p, h), p.dim(x, 2));
  });
}

// Looks at every second token, or at fewer keys and values than queries.
inline Value cross_attention(Parts& p, Value x) {
  return around(p, x, [&](Value y) {
    const Value memory = p.random.flip() ? p.slice(y, 1, 0, p.dim(x, 1), 2) : y;
    return p.dense(attend(p, separate_heads(p, y, memory, heads_of(p, x))), p.dim(x, 2));
  });
}

// Several heads of queries for one of keys and values.
inline Value grouped_attention(Parts& p, Value x) {
  const int64_t s = p.dim(x, 1), d = p.dim(x, 2);
  if (d % 4 != 0) return self_attention(p, x);
  return around(p, x, [&](Value y) {
    const Value q = split_heads(p, p.dense(y, d), 4);
    const auto few = [&] {
      const Value one = p.net.call("unsqueeze", {split_heads(p, p.dense(y, d / 2), 2), p.net.ints({2})});
      return p.net.reshape(p.net.call("expand", {one, p.net.ints({1, 2, 2, s, d / 4})}), {0, 4, s, d / 4});
    };
    const Value k = few(), v = few();
    return p.dense(attend(p, {q, k, v}), d);
  });
}

inline Value linear_attention(Parts& p, Value x) {
  return around(p, x, [&](Value y) {
    const Heads h = separate_heads(p, y, y, heads_of(p, x));
    const auto feature = [&](Value z) { return p.net.add(p.net.call("elu", {z}), p.number(1)); };
    const Value q = feature(h.q), k = feature(h.k), turned = h.turned ? k : p.net.transpose(k, {0, 1, 3, 2});
    const Value state = p.net.call("matmul", {turned, h.v});
    const Value total = p.net.call("reduce_sum", {turned, p.net.ints({-1})});
    const Value seen = p.net.call("div", {p.net.call("matmul", {q, state}), p.net.call("matmul", {q, total})});
    return p.net.reshape(p.net.transpose(seen, {0, 2, 1, 3}), {0, p.dim(x, 1), p.dim(x, 2)});
  });
}

inline Value perceptron(Parts& p, Value x) {
  return around(p, x, [&](Value y) {
    const int64_t d = p.dim(x, 2), wide = d * p.one_of<int64_t>({1, 2, 4});
    return p.dense(p.activation(p.dense(y, wide)), d);
  });
}

inline Value gated(Parts& p, Value x) {
  return around(p, x, [&](Value y) {
    const int64_t d = p.dim(x, 2), wide = d * p.one_of<int64_t>({1, 2});
    if (p.random.flip()) return p.dense(p.net.mul(p.activation(p.dense(y, wide, false)), p.dense(y, wide, false)), d);
    const auto halves = p.halves(p.dense(y, 2 * wide), 2);
    return p.dense(p.net.mul(halves[0], p.activation(halves[1])), d);
  });
}

// Over the tokens in place of the numbers of each.
inline Value mixer(Parts& p, Value x) {
  return around(p, x, [&](Value y) {
    const int64_t s = p.dim(x, 1);
    const Value turned = p.net.transpose(y, {0, 2, 1});
    return p.net.transpose(p.net.linear(p.gelu(p.net.linear(turned, 2 * s)), s), {0, 2, 1});
  });
}

// A convolution along the tokens, as conformers have it.
inline Value convolved(Parts& p, Value x) {
  return around(p, x, [&](Value y) {
    const int64_t d = p.dim(x, 2), k = p.one_of<int64_t>({3, 5, 7});
    Value z = p.net.transpose(y, {0, 2, 1});
    if (p.random.flip()) {
      const auto halves = p.halves(p.net.conv(z, {.out = 2 * d, .kernel = {1}, .bias = true}), 1);
      z = p.net.mul(halves[0], p.net.sigmoid(halves[1]));
    }
    z = p.net.conv(z, {.out = d, .kernel = {k}, .pad = {k / 2}, .groups = p.random.flip() ? d : 1});
    z = p.net.conv(p.activation(p.net.batch_norm(z)), {.out = d, .kernel = {1}});
    return p.net.transpose(z, {0, 2, 1});
  });
}

// Windows of tokens that were moved on by half of one.
inline Value windows(Parts& p, Value x) {
  const int64_t s = p.dim(x, 1), d = p.dim(x, 2);
  if (s % 4 != 0) return perceptron(p, x);
  const auto moved = [&](Value y, int64_t by) { return p.net.concat({p.slice(y, 1, by, s), p.slice(y, 1, 0, by)}, 1); };
  return around(p, x, [&](Value y) {
    const bool move = p.random.flip();
    if (move) y = moved(y, 2);
    y = p.net.reshape(y, {-1, 4, d});
    y = p.net.reshape(p.dense(attend(p, separate_heads(p, y, y, heads_of(p, x))), d), {-1, s, d});
    return move ? moved(y, s - 2) : y;
  });
}

inline Value recurrent(Parts& p, Value x) {
  const int64_t d = p.dim(x, 2), hidden = p.one_of<int64_t>({8, 16, 20});
  const bool both = p.random.flip(0.4), lstm = p.random.flip();
  const int64_t ways = both ? 2 : 1, gates = lstm ? 4 : 3;
  const double spread = 1 / std::sqrt(static_cast<double>(hidden));
  const auto made =
      p.net.calls(lstm ? "lstm" : "gru",
                  {p.net.transpose(x, {1, 0, 2}), p.net.weight("w", {ways, gates * hidden, d}, spread),
                   p.net.weight("r", {ways, gates * hidden, hidden}, spread),
                   p.net.weight("b", {ways, 2 * gates * hidden}, spread)},
                  {{"hidden_size", hidden}, {"direction", std::string(both ? "bidirectional" : "forward")}}, 1);
  const Value rows = p.net.reshape(p.net.transpose(made[0], {2, 0, 1, 3}), {0, p.dim(x, 1), ways * hidden});
  return p.net.add(x, p.dense(rows, d));
}

using Block = Value (*)(Parts&, Value);
inline constexpr Block kBlocks[] = {self_attention,   self_attention, cross_attention, grouped_attention,
                                    linear_attention, perceptron,     gated,           mixer,
                                    convolved,        windows,        recurrent};

}  // namespace isomer::testing::token
