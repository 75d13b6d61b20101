// Blocks of networks that look at signals [n, c, l] and volumes [n, c, t, h, w]: the same functions for any number of axes.
#pragma once

#include "test/architecture_parts.h"

namespace isomer::testing::signal {

using Ints = std::vector<int64_t>;

inline int64_t width(Parts& p) { return p.one_of<int64_t>({4, 8, 12, 16, 24, 32}); }
inline size_t axes(const Parts& p, Value x) { return p.net.rank(x) - 2; }
inline bool small(const Parts& p, Value x) {
  for (size_t axis = 2; axis < p.net.rank(x); ++axis)
    if (p.dim(x, axis) < 6) return true;
  return false;
}

inline Value plain(Parts& p, Value x) {
  const int64_t kernel = p.one_of<int64_t>({1, 3, 3, 5}), stride = small(p, x) ? 1 : p.one_of<int64_t>({1, 1, 2});
  return p.activation(p.net.batch_norm(conv(p, x, width(p), kernel, stride)));
}

inline Value residual(Parts& p, Value x) {
  const int64_t c = p.dim(x, 1), dilation = p.one_of<int64_t>({1, 1, 2, 4});
  const Value y = p.activation(conv(p, p.activation(x), c, 3, 1, 1, dilation));
  return p.net.add(x, conv(p, y, c, 1));
}

// As generators of sound have it: one half opens or closes the other.
inline Value gated(Parts& p, Value x) {
  const int64_t c = p.dim(x, 1), dilation = p.one_of<int64_t>({1, 2, 4});
  Value a, b;
  if (p.random.flip()) {
    a = conv(p, x, c, 3, 1, 1, dilation), b = conv(p, x, c, 3, 1, 1, dilation);
  } else {
    const auto halves = p.halves(conv(p, x, 2 * c, 3, 1, 1, dilation), 1);
    a = halves[0], b = halves[1];
  }
  return p.net.add(x, conv(p, p.net.mul(p.net.tanh(a), p.net.sigmoid(b)), c, 1));
}

inline Value separable(Parts& p, Value x) {
  const int64_t c = p.dim(x, 1), kernel = p.one_of<int64_t>({3, 5});
  const Value y = p.net.batch_norm(conv(p, x, c, kernel, small(p, x) ? 1 : p.one_of<int64_t>({1, 2}), c));
  return p.activation(p.net.batch_norm(conv(p, p.activation(y), width(p), 1)));
}

inline Value pooled(Parts& p, Value x) {
  if (small(p, x)) return plain(p, x);
  return p.random.flip() ? p.net.max_pool(x, {.kernel = 2, .stride = 2})
                         : p.net.average_pool(x, {.kernel = 2, .stride = 2});
}

// Down by a stride and up again, its own length restored by a slice where that is odd.
inline Value hourglass(Parts& p, Value x) {
  const int64_t c = p.dim(x, 1), kernel = p.one_of<int64_t>({2, 4});
  if (small(p, x)) return residual(p, x);
  Value y = p.activation(conv(p, x, c, 3, 2));
  Ints shape = {c, c};
  shape.insert(shape.end(), axes(p, x), kernel);
  y = p.net.call("conv_transpose", {y, p.net.weight("up", shape, 0.2)},
                 {{"strides", Ints(axes(p, x), 2)}, {"pads", Ints(2 * axes(p, x), (kernel - 2) / 2)}});
  for (size_t axis = 2; axis < p.net.rank(x); ++axis)
    if (p.dim(y, axis) != p.dim(x, axis)) y = p.slice(y, static_cast<int64_t>(axis), 0, p.dim(x, axis));
  return p.random.flip() ? p.net.add(x, y) : p.net.concat({x, y}, 1);
}

// Padded in front alone, so that nothing sees what comes later along the first axis.
inline Value causal(Parts& p, Value x) {
  const int64_t dilation = p.one_of<int64_t>({1, 2, 4});
  Ints pads(2 * p.net.rank(x), 0), kernel(axes(p, x), 1);
  pads[2] = 2 * dilation;
  kernel[0] = 3;
  const Value padded = p.net.call("pad", {x, p.net.ints(pads)});
  return p.activation(p.net.conv(padded, {.out = width(p), .kernel = kernel, .dilation = dilation}));
}

inline Value normal(Parts& p, Value x) {
  const int64_t c = p.dim(x, 1);
  const Value y = conv(p, x, c, 3);
  return p.activation(p.net.call("instance_normalization",
                                 {y, p.net.weight("norm", {c}, 0.2, 1), p.net.weight("shift", {c}, 0.1)},
                                 {{"epsilon", 1e-4}}));
}

using Block = Value (*)(Parts&, Value);
inline constexpr Block kBlocks[] = {plain, residual, gated, separable, pooled, hourglass, causal, normal};

}  // namespace isomer::testing::signal
