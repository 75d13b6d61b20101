// Networks without shortcuts: the demonstration network, VGG-16, CSRNet, a context network, SqueezeNet, DenseNet.
#include <fmt/format.h>

#include "zoo/architectures.h"

namespace isomer::zoo {
namespace {

// Widths of 3x3 convolutions; 0 is a pooling by two.
Value vgg_features(Net& net, Value x, std::initializer_list<int64_t> widths, int64_t dilation = 1) {
  int64_t index = 0;
  for (int64_t w : widths) {
    net.scope(fmt::format("features.{}", index++));
    x = w == 0
            ? net.max_pool(x, {.kernel = 2, .stride = 2})
            : net.relu(net.conv(x, {.out = w, .kernel = {3}, .pad = {dilation}, .dilation = dilation, .bias = true}));
  }
  return x;
}

// A squeeze to few channels, then 1x1 and 3x3 expansions side by side.
Value fire(Net& net, Value x, int64_t squeeze, int64_t expand) {
  const Value s = net.relu(net.conv(x, {.out = squeeze, .kernel = {1}, .bias = true}));
  const Value e1 = net.relu(net.conv(s, {.out = expand, .kernel = {1}, .bias = true}));
  const Value e3 = net.relu(net.conv(s, {.out = expand, .kernel = {3}, .pad = {1}, .bias = true}));
  return net.concat({e1, e3}, 1);
}

}  // namespace

void tiny(Net& net) {
  Value x = image_input(net);
  net.scope("stem");
  x = net.conv_bn_relu(x, {.out = 16, .kernel = {3}, .stride = {2}, .pad = {1}});
  net.scope("block");
  const Value y = net.conv_bn_relu(x, {.out = 16, .kernel = {3}, .pad = {1}});
  x = net.relu(net.add(net.conv_bn(y, {.out = 16, .kernel = {3}, .pad = {1}}), x));
  x = net.max_pool(x, {.kernel = 2, .stride = 2});
  net.scope("branches");
  x = net.concat(
      {net.conv_bn_relu(x, {.out = 16, .kernel = {1}}), net.conv_bn_relu(x, {.out = 16, .kernel = {3}, .pad = {1}})},
      1);
  net.scope("fc");
  net.output("output", net.call("softmax", {net.classifier(x, 10)}, {{"axis", int64_t{-1}}}));
}

void vgg16(Net& net) {
  Value x = vgg_features(net, image_input(net),
                         {64, 64, 0, 128, 128, 0, 256, 256, 256, 0, 512, 512, 512, 0, 512, 512, 512, 0});
  x = net.call("flatten", {x}, {{"axis", int64_t{1}}});
  for (int64_t width : {4096, 4096}) {
    net.scope(fmt::format("classifier.{}", width));
    x = net.relu(net.fully_connected(x, width));
  }
  net.scope("classifier.out");
  net.output("output", net.fully_connected(x, 1000));
}

void csrnet(Net& net) {
  Value x = vgg_features(net, image_input(net), {64, 64, 0, 128, 128, 0, 256, 256, 256, 0, 512, 512, 512});
  x = vgg_features(net, x, {512, 512, 512, 256, 128, 64}, 2);
  net.scope("output");
  net.output("output", net.conv(x, {.out = 1, .kernel = {1}, .bias = true}));
}

void context_net(Net& net) {
  Value x = vgg_features(net, image_input(net), {16, 0});
  x = vgg_features(net, x, {16, 16, 16, 16, 16, 16, 8, 8, 8, 8, 8, 8}, 2);
  net.scope("output");
  net.output("output", net.conv(x, {.out = 1, .kernel = {1}, .bias = true}));
}

void squeezenet1_1(Net& net) {
  struct Fire {
    int64_t squeeze, expand;
    bool pool_before;
  };
  static constexpr Fire kFires[] = {{16, 64, true},  {16, 64, false},  {32, 128, true},  {32, 128, false},
                                    {48, 192, true}, {48, 192, false}, {64, 256, false}, {64, 256, false}};
  Value x = image_input(net);
  net.scope("features.0");
  x = net.relu(net.conv(x, {.out = 64, .kernel = {3}, .stride = {2}, .bias = true}));
  int64_t index = 1;
  for (const Fire& f : kFires) {
    net.scope(fmt::format("features.{}", index++));
    if (f.pool_before) x = net.max_pool(x, {.kernel = 3, .stride = 2, .ceil = true});
    x = fire(net, x, f.squeeze, f.expand);
  }
  net.scope("classifier");
  x = net.relu(net.conv(x, {.out = 1000, .kernel = {1}, .bias = true}));
  net.output("output", net.call("flatten", {net.global_average(x)}, {{"axis", int64_t{1}}}));
}

void densenet121(Net& net) {
  constexpr int64_t kGrowth = 32, kBottleneck = 128;
  constexpr int64_t kLayers[] = {6, 12, 24, 16};
  Value x = image_input(net);
  net.scope("conv0");
  x = net.conv_bn_relu(x, {.out = 64, .kernel = {7}, .stride = {2}, .pad = {3}});
  x = net.max_pool(x, {.kernel = 3, .stride = 2, .pad = 1});
  for (int64_t block = 0; block < 4; ++block) {
    std::vector<Value> parts = {x};
    for (int64_t layer = 0; layer < kLayers[block]; ++layer) {
      net.scope(fmt::format("denseblock{}.denselayer{}", block + 1, layer + 1));
      const Value all = parts.size() == 1 ? parts[0] : net.concat(parts, 1);
      const Value inner = net.conv(net.relu(net.batch_norm(all)), {.out = kBottleneck, .kernel = {1}});
      parts.push_back(net.conv(net.relu(net.batch_norm(inner)), {.out = kGrowth, .kernel = {3}, .pad = {1}}));
    }
    x = net.concat(parts, 1);
    net.scope(fmt::format("transition{}", block + 1));
    x = net.relu(net.batch_norm(x));
    if (block < 3)
      x = net.average_pool(net.conv(x, {.out = net.dim(x, 1) / 2, .kernel = {1}}), {.kernel = 2, .stride = 2});
  }
  net.scope("classifier");
  net.output("output", net.classifier(x, 1000));
}

}  // namespace isomer::zoo
