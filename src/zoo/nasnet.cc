// NASNet-A: cells found by architecture search, with many separable convolutions and poolings of the same input.
#include <fmt/format.h>

#include "zoo/architectures.h"

namespace isomer::zoo {
namespace {

Value squeeze(Net& net, Value x, int64_t out) { return net.conv_bn(net.relu(x), {.out = out, .kernel = {1}}); }

// Brings the result of the cell before last to the channels and the size of `current`.
Value fit(Net& net, Value current, Value x) {
  const int64_t stride = net.dim(x, 2) == net.dim(current, 2) ? 1 : 2;
  const int64_t kernel = stride == 1 ? 1 : 3;
  return net.conv_bn(net.relu(x),
                     {.out = net.dim(current, 1), .kernel = {kernel}, .stride = {stride}, .pad = {kernel / 2}});
}

Value separable(Net& net, Value x, int64_t kernel, int64_t stride = 1) {
  const int64_t channels = net.dim(x, 1);
  const Value depthwise = net.conv(
      net.relu(x), {.out = channels, .kernel = {kernel}, .stride = {stride}, .pad = {kernel / 2}, .groups = channels});
  return net.conv_bn(depthwise, {.out = channels, .kernel = {1}});
}

Value average(Net& net, Value x, int64_t stride = 1) {
  return net.average_pool(x, {.kernel = 3, .stride = stride, .pad = 1});
}
Value maximum(Net& net, Value x) { return net.max_pool(x, {.kernel = 3, .stride = 2, .pad = 1}); }

Value normal_cell(Net& net, Value before, Value x, int64_t out) {
  x = squeeze(net, x, out);
  before = fit(net, x, before);
  return net.concat({net.add(separable(net, x, 3), x), net.add(separable(net, before, 3), separable(net, x, 5)),
                     net.add(average(net, x), before), net.add(average(net, before), average(net, before)),
                     net.add(separable(net, before, 5), separable(net, before, 3))},
                    1);
}

Value reduction_cell(Net& net, Value before, Value x, int64_t out) {
  x = squeeze(net, x, out);
  before = fit(net, x, before);
  const Value first = net.add(separable(net, before, 7, 2), separable(net, x, 5, 2));
  const Value second = net.add(maximum(net, x), separable(net, before, 7, 2));
  const Value third = net.add(average(net, x, 2), separable(net, before, 5, 2));
  const Value fourth = net.add(maximum(net, x), separable(net, first, 3));
  return net.concat({third, fourth, net.add(average(net, first), second)}, 1);
}

}  // namespace

void nasnet_a(Net& net) {
  Value x = image_input(net);
  net.scope("stem");
  x = net.conv_bn_relu(x, {.out = 64, .kernel = {7}, .stride = {2}, .pad = {3}});
  x = net.max_pool(x, {.kernel = 3, .stride = 2, .pad = 1});
  int64_t channels = 128;
  for (int stage = 0; stage < 3; ++stage) {
    Value before = x;
    for (int64_t cell = 0; cell < net.options().layers; ++cell) {
      net.scope(fmt::format("stage{}.cell{}", stage, cell));
      const Value next = normal_cell(net, before, x, channels);
      before = x;
      x = next;
    }
    channels *= 2;
    net.scope(fmt::format("stage{}.reduction", stage));
    x = reduction_cell(net, before, x, channels);
  }
  net.scope("classifier");
  net.output("output", net.classifier(net.relu(x), 1000));
}

}  // namespace isomer::zoo
