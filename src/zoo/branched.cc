// Networks in the form they are trained in, with parallel branches that add up to one convolution: MobileOne and RepVGG.
#include <fmt/format.h>

#include "zoo/architectures.h"

namespace isomer::zoo {
namespace {

// Several convolutions of one input, one of a single pixel where the others are larger, and the input itself where it fits:
// each normalised, then their sum.
Value branches(Net& net, Value x, const Conv& c, int64_t count) {
  Value sum = net.conv_bn(x, c);
  for (int64_t k = 1; k < count; ++k) sum = net.add(sum, net.conv_bn(x, c));
  if (c.kernel[0] > 1)
    sum = net.add(sum, net.conv_bn(x, {.out = c.out, .kernel = {1}, .stride = c.stride, .groups = c.groups}));
  if (c.stride[0] == 1 && net.dim(x, 1) == c.out) sum = net.add(sum, net.batch_norm(x));
  return net.relu(sum);
}

}  // namespace

// The smallest: four branches in every convolution but the first.
void mobileone_s0(Net& net) {
  struct Stage {
    int64_t out, blocks;
  };
  static constexpr Stage kStages[] = {{48, 2}, {128, 8}, {256, 10}, {1024, 1}};
  constexpr int64_t kBranches = 4;
  Value x = image_input(net);
  net.scope("stem");
  x = branches(net, x, {.out = 48, .kernel = {3}, .stride = {2}, .pad = {1}}, 1);
  int64_t index = 0;
  for (const Stage& s : kStages) {
    ++index;
    for (int64_t b = 0; b < s.blocks; ++b) {
      const int64_t in = net.dim(x, 1), stride = b == 0 ? 2 : 1;
      net.scope(fmt::format("stages.{}.{}.depthwise", index, b));
      x = branches(net, x, {.out = in, .kernel = {3}, .stride = {stride}, .pad = {1}, .groups = in}, kBranches);
      net.scope(fmt::format("stages.{}.{}.pointwise", index, b));
      x = branches(net, x, {.out = s.out, .kernel = {1}}, kBranches);
    }
  }
  net.scope("classifier");
  net.output("output", net.classifier(x, 1000));
}

void repvgg_a0(Net& net) {
  struct Stage {
    int64_t out, blocks;
  };
  static constexpr Stage kStages[] = {{48, 1}, {48, 2}, {96, 4}, {192, 14}, {1280, 1}};
  Value x = image_input(net);
  int64_t index = 0;
  for (const Stage& s : kStages) {
    for (int64_t b = 0; b < s.blocks; ++b) {
      net.scope(fmt::format("stages.{}.{}", index, b));
      x = branches(net, x, {.out = s.out, .kernel = {3}, .stride = {b == 0 ? 2 : 1}, .pad = {1}}, 1);
    }
    ++index;
  }
  net.scope("classifier");
  net.output("output", net.classifier(x, 1000));
}

}  // namespace isomer::zoo
