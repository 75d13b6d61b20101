// Blocks of networks that look at images [n, c, h, w]: each takes an image and gives one, of other channels or half the
// size in some.
#pragma once

#include "test/architecture_parts.h"

namespace isomer::testing::image {

inline Value layer(Parts& p, Value x, int64_t out, int64_t kernel, int64_t stride = 1, int64_t groups = 1,
                   int64_t dilation = 1) {
  Value y = conv(p, x, out, kernel, stride, groups, dilation);
  if (p.random.flip(0.8)) y = p.channel_norm(y);
  return p.random.flip(0.8) ? p.activation(y) : y;
}
inline int64_t width(Parts& p) { return p.one_of<int64_t>({4, 8, 12, 16, 16, 24, 32, 32, 40, 48, 64}); }
inline bool small(Parts& p, Value x) { return p.dim(x, 2) < 6 || p.dim(x, 3) < 6; }

inline Value plain(Parts& p, Value x) {
  const int64_t kernel = p.one_of<int64_t>({1, 3, 3, 3, 5, 7});
  return layer(p, x, width(p), kernel, small(p, x) ? 1 : p.one_of<int64_t>({1, 1, 1, 2}), 1,
               kernel == 3 && p.random.flip(0.2) ? 2 : 1);
}

inline Value rectangles(Parts& p, Value x) {
  const int64_t out = width(p), k = p.one_of<int64_t>({3, 5, 7});
  const Value y = p.net.conv_bn_relu(x, {.out = out, .kernel = {1, k}, .pad = {0, k / 2}});
  return p.net.conv_bn_relu(y, {.out = out, .kernel = {k, 1}, .pad = {k / 2, 0}});
}

inline Value residual(Parts& p, Value x) {
  const int64_t stride = small(p, x) ? 1 : p.one_of<int64_t>({1, 1, 2}), in = p.dim(x, 1);
  const int64_t out = stride == 2 || p.random.flip(0.3) ? width(p) : in;
  Value y = layer(p, x, out, 3, stride);
  y = p.channel_norm(conv(p, y, out, 3));
  Value skip = x;
  if (stride == 2 && p.random.flip(0.4))
    skip = p.net.average_pool(x, {.kernel = 2, .stride = 2, .ceil = true}), skip = conv(p, skip, out, 1);
  else if (stride == 2 || out != in)
    skip = p.channel_norm(conv(p, x, out, 1, stride));
  const Value sum = p.random.flip() ? p.net.add(y, skip) : p.net.add(skip, y);
  return p.random.flip(0.8) ? p.activation(sum) : sum;
}

inline Value bottleneck(Parts& p, Value x) {
  const int64_t middle = p.one_of<int64_t>({8, 16, 32}), groups = p.one_of<int64_t>({1, 1, 2, 4, 8});
  Value y = layer(p, layer(p, x, middle, 1), middle, 3, 1, groups);
  y = p.channel_norm(conv(p, y, p.dim(x, 1), 1));
  return p.activation(p.net.add(x, y));
}

// Squeeze and excite: by a global pool or a mean, with products or pointwise convolutions.
inline Value excite(Parts& p, Value x) {
  const int64_t c = p.dim(x, 1), less = std::max<int64_t>(1, c / 4);
  Value s = p.random.flip() ? p.net.global_average(x) : p.net.call("reduce_mean", {x, p.net.ints({2, 3})});
  const char* gate = p.random.flip() ? "sigmoid" : "hard_sigmoid";
  if (p.random.flip()) {
    s = conv(p, p.net.relu(conv(p, s, less, 1)), c, 1);
  } else {
    s = p.net.fully_connected(p.net.relu(p.net.fully_connected(p.net.call("flatten", {s}), less)), c);
    s = p.net.reshape(s, {0, c, 1, 1});
  }
  return p.net.mul(x, p.net.call(gate, {s}));
}

inline Value inverted(Parts& p, Value x) {
  const int64_t c = p.dim(x, 1), wide = std::min<int64_t>(96, c * p.one_of<int64_t>({1, 2, 4}));
  const int64_t stride = small(p, x) ? 1 : p.one_of<int64_t>({1, 1, 2}),
                out = stride == 1 && p.random.flip(0.7) ? c : width(p);
  Value y = layer(p, layer(p, x, wide, 1), wide, p.one_of<int64_t>({3, 5}), stride, wide);
  if (p.random.flip()) y = excite(p, y);
  y = p.channel_norm(conv(p, y, out, 1));
  return stride == 1 && out == c ? p.net.add(x, y) : y;
}

inline Value convnext(Parts& p, Value x) {
  const int64_t c = p.dim(x, 1);
  Value y = p.net.transpose(conv(p, x, c, p.one_of<int64_t>({3, 7}), 1, c), {0, 2, 3, 1});
  y = p.net.linear(p.gelu(p.net.linear(p.row_norm(y), 2 * c)), c);
  if (p.random.flip()) y = p.net.mul(y, p.net.weight("scale", {c}, 0.5, 0.5));
  return p.net.add(x, p.net.transpose(y, {0, 3, 1, 2}));
}

inline Value branches(Parts& p, Value x) {
  std::vector<Value> parts;
  for (int64_t k = p.random.between(2, 4); k > 0; --k) {
    const int64_t out = p.one_of<int64_t>({4, 8, 16, 24});
    switch (p.random.below(5)) {
      case 0: parts.push_back(layer(p, x, out, 1)); break;
      case 1: parts.push_back(layer(p, layer(p, x, 8, 1), out, 3)); break;
      case 2: parts.push_back(rectangles(p, layer(p, x, 8, 1))); break;
      case 3: parts.push_back(layer(p, p.net.average_pool(x, {.kernel = 3, .pad = 1}), out, 1)); break;
      default: parts.push_back(p.net.max_pool(x, {.kernel = 3, .pad = 1})); break;
    }
  }
  return p.net.concat(parts, 1);
}

inline Value dense_block(Parts& p, Value x) {
  for (int64_t k = p.random.between(2, 3); k > 0; --k) {
    const Value y = conv(p, p.activation(p.net.batch_norm(x)), 16, 1);
    x = p.net.concat({x, conv(p, p.activation(p.net.batch_norm(y)), p.one_of<int64_t>({4, 8, 12}), 3)}, 1);
  }
  return x;
}

inline Value fire(Parts& p, Value x) {
  const Value s = p.net.relu(conv(p, x, p.one_of<int64_t>({4, 8, 16}), 1));
  const int64_t out = width(p);
  return p.net.concat({p.net.relu(conv(p, s, out, 1)), p.net.relu(conv(p, s, out, 3))}, 1);
}

inline Value reparameterised(Parts& p, Value x) {
  const int64_t c = p.dim(x, 1), groups = p.random.flip(0.3) ? c : 1;
  Value sum = p.net.add(p.net.batch_norm(conv(p, x, c, 3, 1, groups)), p.net.batch_norm(conv(p, x, c, 1, 1, groups)));
  if (p.random.flip()) sum = p.net.add(sum, p.net.batch_norm(x));
  return p.activation(sum);
}

inline Value shuffle(Parts& p, Value x) {
  if (p.dim(x, 1) % 4 != 0) x = layer(p, x, 16, 1);
  const int64_t c = p.dim(x, 1), h = p.dim(x, 2), w = p.dim(x, 3), half = c / 2;
  const std::vector<Value> sides = p.halves(x, 1);
  Value y = layer(p, sides[1], half, 1);
  y = layer(p, p.net.batch_norm(conv(p, y, half, 3, 1, half)), half, 1);
  y = p.net.concat({sides[0], y}, 1);
  return p.net.reshape(p.net.transpose(p.net.reshape(y, {0, 2, half, h, w}), {0, 2, 1, 3, 4}), {0, c, h, w});
}

inline Value twice_as_large(Parts& p, Value x, const char* mode, const char* coordinates) {
  const Value scales = p.net.concat({p.net.weight("one", {2}, 0, 1), p.net.weight("two", {2}, 0, 2)}, 0);
  return p.net.call("resize", {x, {}, scales},
                    {{"mode", std::string(mode)},
                     {"coordinate_transformation_mode", std::string(coordinates)},
                     {"nearest_mode", std::string("floor")}});
}

// Down and up again, with the image as it was beside it or added to it.
inline Value hourglass(Parts& p, Value x) {
  const int64_t c = p.dim(x, 1), h = p.dim(x, 2), w = p.dim(x, 3);
  if (h % 2 != 0 || w % 2 != 0) return plain(p, x);
  Value y = p.random.flip() ? layer(p, p.net.max_pool(x, {.kernel = 2, .stride = 2}), c, 3) : layer(p, x, c, 3, 2);
  switch (p.random.below(4)) {
    case 0:
      y = p.net.call("conv_transpose", {y, p.net.weight("up", {c, c, 2, 2}, 0.2)},
                     {{"strides", std::vector<int64_t>{2, 2}}});
      break;
    case 1: y = twice_as_large(p, y, "linear", p.random.flip() ? "align_corners" : "half_pixel"); break;
    case 2:
      y = p.net.call("depth_to_space", {conv(p, y, 4 * c, 1)},
                     {{"blocksize", int64_t{2}}, {"mode", std::string(p.random.flip() ? "CRD" : "DCR")}});
      break;
    default: y = twice_as_large(p, y, "nearest", "asymmetric");
  }
  return p.random.flip() ? p.net.add(x, y) : layer(p, p.net.concat({x, y}, 1), c, 3);
}

// What is looked at: channels by both pools, places by mean and maximum of the channels.
inline Value attention_map(Parts& p, Value x) {
  const Value both = p.net.concat(
      {p.net.call("reduce_mean", {x, p.net.ints({1})}), p.net.call("reduce_max", {x, p.net.ints({1})})}, 1);
  x = p.net.mul(x, p.net.sigmoid(conv(p, both, 1, 7)));
  const Value sum = p.net.add(conv(p, p.net.global_average(x), p.dim(x, 1), 1),
                              conv(p, p.net.call("global_max_pool", {x}), p.dim(x, 1), 1));
  return p.net.mul(x, p.net.sigmoid(sum));
}

inline Value pooled(Parts& p, Value x) {
  if (small(p, x)) return plain(p, x);
  switch (p.random.below(4)) {
    case 0: return p.net.max_pool(x, {.kernel = 3, .stride = 2, .pad = 1, .ceil = p.random.flip()});
    case 1: return p.net.average_pool(x, {.kernel = 2, .stride = 2});
    case 2:
      return p.net.call("average_pool", {x},
                        {{"kernel_shape", std::vector<int64_t>{3, 3}},
                         {"strides", std::vector<int64_t>{2, 2}},
                         {"pads", std::vector<int64_t>{1, 1, 1, 1}},
                         {"count_include_pad", int64_t{1}}});
    default: return p.net.max_pool(x, {.kernel = 2, .stride = 2});
  }
}

// Every second pixel beside the others.
inline Value focus(Parts& p, Value x) {
  const int64_t h = p.dim(x, 2), w = p.dim(x, 3);
  if (small(p, x) || h % 2 != 0 || w % 2 != 0) return plain(p, x);
  std::vector<Value> parts;
  for (const int64_t i : {0, 1})
    for (const int64_t j : {0, 1}) parts.push_back(p.slice(p.slice(x, 2, i, h, 2), 3, j, w, 2));
  return layer(p, p.net.concat(parts, 1), width(p), 3);
}

inline Value pyramid(Parts& p, Value x) {
  const Value y = layer(p, x, 16, 1), a = p.net.max_pool(y, {.kernel = 5, .pad = 2}),
              b = p.net.max_pool(a, {.kernel = 5, .pad = 2});
  return layer(p, p.net.concat({y, a, b, p.net.max_pool(b, {.kernel = 5, .pad = 2})}, 1), width(p), 1);
}

// A part of the channels goes through layers, the other one passes by; what each layer made is kept.
inline Value cross_stage(Parts& p, Value x) {
  const std::vector<Value> sides = p.halves(layer(p, x, 32, 1), 1);
  std::vector<Value> parts = {sides[0], sides[1]};
  for (int64_t k = p.random.between(1, 3); k > 0; --k) {
    const Value y = layer(p, layer(p, parts.back(), 16, 3), 16, 3);
    parts.push_back(p.random.flip() ? p.net.add(parts.back(), y) : y);
  }
  return layer(p, p.net.concat(parts, 1), width(p), 1);
}

inline Value reflected(Parts& p, Value x) {
  const Value padded = p.net.call("pad", {x, p.net.ints({0, 0, 1, 1, 0, 0, 1, 1})},
                                  {{"mode", std::string(p.one_of<const char*>({"reflect", "edge", "constant"}))}});
  return p.activation(p.channel_norm(p.net.conv(padded, {.out = width(p), .kernel = {3}})));
}

using Block = Value (*)(Parts&, Value);
inline constexpr Block kBlocks[] = {plain,    rectangles, residual,      bottleneck, inverted,
                                    convnext, branches,   dense_block,   fire,       reparameterised,
                                    shuffle,  hourglass,  attention_map, pooled,     focus,
                                    pyramid,  excite,     cross_stage,   reflected};

}  // namespace isomer::testing::image
