// Residual networks: ResNet-18 and -50, ResNeXt-50, their 3-D sister, and SSD on top of ResNet-50.
#include <fmt/format.h>

#include "zoo/architectures.h"

namespace isomer::zoo {
namespace {

struct Stage {
  int64_t width, blocks, stride;
};

constexpr Stage kShallow[] = {{64, 2, 1}, {128, 2, 2}, {256, 2, 2}, {512, 2, 2}};
constexpr Stage kDeep[] = {{64, 3, 1}, {128, 4, 2}, {256, 6, 2}, {512, 3, 2}};

// Two 3x3 convolutions round a shortcut; `kernel` has the rank of the input's spatial axes.
Value basic_block(Net& net, Value x, int64_t width, int64_t stride) {
  Value y = net.conv_bn_relu(x, {.out = width, .kernel = {3}, .stride = {stride}, .pad = {1}});
  y = net.conv_bn(y, {.out = width, .kernel = {3}, .pad = {1}});
  if (stride != 1 || net.dim(x, 1) != width) x = net.conv_bn(x, {.out = width, .kernel = {1}, .stride = {stride}});
  return net.relu(net.add(y, x));
}

// 1x1, grouped 3x3, 1x1 round a shortcut.
Value bottleneck(Net& net, Value x, int64_t width, int64_t out, int64_t stride, int64_t groups) {
  Value y = net.conv_bn_relu(x, {.out = width, .kernel = {1}});
  y = net.conv_bn_relu(y, {.out = width, .kernel = {3}, .stride = {stride}, .pad = {1}, .groups = groups});
  y = net.conv_bn(y, {.out = out, .kernel = {1}});
  if (stride != 1 || net.dim(x, 1) != out) x = net.conv_bn(x, {.out = out, .kernel = {1}, .stride = {stride}});
  return net.relu(net.add(y, x));
}

Value stem(Net& net, Value x) {
  net.scope("stem");
  x = net.conv_bn_relu(x, {.out = 64, .kernel = {7}, .stride = {2}, .pad = {3}});
  return net.max_pool(x, {.kernel = 3, .stride = 2, .pad = 1});
}

// `spread` is the factor of the inner width over ResNet's: 2 with 32 groups is ResNeXt's 32x4d.
Value deep_stage(Net& net, Value x, size_t index, int64_t stride, int64_t groups, int64_t spread) {
  const Stage& s = kDeep[index];
  for (int64_t b = 0; b < s.blocks; ++b) {
    net.scope(fmt::format("layer{}.{}", index + 1, b));
    x = bottleneck(net, x, s.width * spread, s.width * 4, b == 0 ? stride : 1, groups);
  }
  return x;
}

void deep_network(Net& net, int64_t groups, int64_t spread) {
  Value x = stem(net, image_input(net));
  for (size_t i = 0; i < 4; ++i) x = deep_stage(net, x, i, kDeep[i].stride, groups, spread);
  net.scope("fc");
  net.output("output", net.classifier(x, 1000));
}

void shallow_stages(Net& net, Value x, int64_t classes) {
  for (size_t i = 0; i < 4; ++i)
    for (int64_t b = 0; b < kShallow[i].blocks; ++b) {
      net.scope(fmt::format("layer{}.{}", i + 1, b));
      x = basic_block(net, x, kShallow[i].width, b == 0 ? kShallow[i].stride : 1);
    }
  net.scope("fc");
  net.output("output", net.classifier(x, classes));
}

}  // namespace

Value image_input(Net& net) {
  const Options& o = net.options();
  return net.input("input", DType::F32, {o.batch, 3, o.image, o.image});
}

Value resnet50_body(Net& net, Value x, size_t stages, int64_t last_stride) {
  x = stem(net, x);
  for (size_t i = 0; i < stages; ++i) x = deep_stage(net, x, i, i + 1 == stages ? last_stride : kDeep[i].stride, 1, 1);
  return x;
}

void resnet18(Net& net) { shallow_stages(net, stem(net, image_input(net)), 1000); }
void resnet50(Net& net) { deep_network(net, 1, 1); }
void resnext50_32x4d(Net& net) { deep_network(net, 32, 2); }

void resnet3d_18(Net& net) {
  const Options& o = net.options();
  Value x = net.input("input", DType::F32, {o.batch, 3, o.sequence, o.image, o.image});
  net.scope("stem");
  x = net.conv_bn_relu(x, {.out = 64, .kernel = {3, 7, 7}, .stride = {1, 2, 2}, .pad = {1, 3, 3}});
  shallow_stages(net, x, 400);
}

void ssd_resnet50(Net& net) {
  struct Extra {
    int64_t inner, out, stride, pad;
  };
  static constexpr Extra kExtras[] = {
      {256, 512, 2, 1}, {256, 512, 2, 1}, {128, 256, 2, 1}, {128, 256, 1, 0}, {128, 256, 1, 0}};
  static constexpr int64_t kBoxes[] = {4, 6, 6, 6, 4, 4};
  constexpr int64_t kLabels = 81;
  std::vector<Value> maps = {resnet50_body(net, image_input(net), 3, 1)};
  for (const Extra& e : kExtras) {
    net.scope(fmt::format("extra.{}", maps.size()));
    const Value inner = net.conv_bn_relu(maps.back(), {.out = e.inner, .kernel = {1}});
    maps.push_back(net.conv_bn_relu(inner, {.out = e.out, .kernel = {3}, .stride = {e.stride}, .pad = {e.pad}}));
  }
  std::vector<Value> boxes, scores;
  for (size_t i = 0; i < maps.size(); ++i) {
    const auto head = [&](const char* name, int64_t values) {
      net.scope(fmt::format("{}.{}", name, i));
      const Value y = net.conv(maps[i], {.out = kBoxes[i] * values, .kernel = {3}, .pad = {1}, .bias = true});
      return net.reshape(y, {net.options().batch, values, -1});
    };
    boxes.push_back(head("loc", 4));
    scores.push_back(head("conf", kLabels));
  }
  net.scope("heads");
  net.output("boxes", net.concat(std::move(boxes), 2));
  net.output("scores", net.concat(std::move(scores), 2));
}

}  // namespace isomer::zoo
