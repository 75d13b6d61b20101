// Inverted residuals: MobileNet v2 and EfficientNet-B0.
#include <fmt/format.h>

#include "zoo/architectures.h"

namespace isomer::zoo {
namespace {

struct Stage {
  int64_t expand, out, blocks, stride, kernel;
};

Value relu6(Net& net, Value x) { return net.call("clip", {x, net.scalar(0), net.scalar(6)}); }
Value silu(Net& net, Value x) { return net.mul(x, net.sigmoid(x)); }

// Channels weighted by what a two-layer perceptron makes of their averages.
Value squeeze_excite(Net& net, Value x, int64_t inner) {
  const int64_t channels = net.dim(x, 1);
  Value s = net.call("global_average_pool", {x});
  s = silu(net, net.conv(s, {.out = inner, .kernel = {1}, .bias = true}));
  return net.mul(x, net.sigmoid(net.conv(s, {.out = channels, .kernel = {1}, .bias = true})));
}

// Expand, depthwise, optional excitation, project; a shortcut where the shapes agree.
Value inverted_residual(Net& net, Value x, const Stage& s, int64_t stride, Value (*activation)(Net&, Value),
                        bool excite) {
  const int64_t in = net.dim(x, 1), wide = in * s.expand;
  Value y = x;
  if (s.expand != 1) y = activation(net, net.conv_bn(y, {.out = wide, .kernel = {1}}));
  y = activation(
      net,
      net.conv_bn(y, {.out = wide, .kernel = {s.kernel}, .stride = {stride}, .pad = {s.kernel / 2}, .groups = wide}));
  if (excite) y = squeeze_excite(net, y, in / 4);
  y = net.conv_bn(y, {.out = s.out, .kernel = {1}});
  return stride == 1 && in == s.out ? net.add(y, x) : y;
}

void network(Net& net, std::span<const Stage> stages, Value (*activation)(Net&, Value), bool excite) {
  Value x = image_input(net);
  net.scope("features.0");
  x = activation(net, net.conv_bn(x, {.out = 32, .kernel = {3}, .stride = {2}, .pad = {1}}));
  int64_t index = 1;
  for (const Stage& s : stages)
    for (int64_t b = 0; b < s.blocks; ++b) {
      net.scope(fmt::format("features.{}", index++));
      x = inverted_residual(net, x, s, b == 0 ? s.stride : 1, activation, excite);
    }
  net.scope("features.last");
  x = activation(net, net.conv_bn(x, {.out = 1280, .kernel = {1}}));
  net.scope("classifier");
  net.output("output", net.classifier(x, 1000));
}

}  // namespace

void mobilenet_v2(Net& net) {
  static constexpr Stage kStages[] = {{1, 16, 1, 1, 3}, {6, 24, 2, 2, 3},  {6, 32, 3, 2, 3}, {6, 64, 4, 2, 3},
                                      {6, 96, 3, 1, 3}, {6, 160, 3, 2, 3}, {6, 320, 1, 1, 3}};
  network(net, kStages, relu6, false);
}

void efficientnet_b0(Net& net) {
  static constexpr Stage kStages[] = {{1, 16, 1, 1, 3},  {6, 24, 2, 2, 3},  {6, 40, 2, 2, 5}, {6, 80, 3, 2, 3},
                                      {6, 112, 3, 1, 5}, {6, 192, 4, 2, 5}, {6, 320, 1, 1, 3}};
  network(net, kStages, silu, true);
}

}  // namespace isomer::zoo
