#include "zoo/zoo.h"

#include <fmt/format.h>

#include <algorithm>

#include "zoo/architectures.h"

namespace isomer::zoo {
namespace {

struct Row {
  Network network;
  void (*build)(Net&);
};

const std::vector<Row>& rows() {
  static const std::vector<Row> all = {
      {{"bert_base", "BERT base encoder, 12 layers, 110 M parameters", 0, 128, 12}, bert_base},
      {{"context_net", "Dense maps from a chain of dilated convolutions that narrows", 128, 0, 0}, context_net},
      {{"csrnet", "CSRNet crowd counting: VGG front end, dilated back end", 224, 0, 0}, csrnet},
      {{"densenet121", "DenseNet-121", 224, 0, 0}, densenet121},
      {{"efficientnet_b0", "EfficientNet-B0 with squeeze and excitation", 224, 0, 0}, efficientnet_b0},
      {{"gpt2_small", "GPT-2 small decoder, 12 layers, 124 M parameters", 0, 64, 12}, gpt2_small},
      {{"inception_v3", "Inception v3", 299, 0, 0}, inception_v3},
      {{"mobilenet_v2", "MobileNet v2", 224, 0, 0}, mobilenet_v2},
      {{"mobileone_s0", "MobileOne S0 as it is trained: four branches in each convolution", 224, 0, 0}, mobileone_s0},
      {{"nasnet_a", "NASNet-A cells, three stages of five", 224, 0, 5}, nasnet_a},
      {{"nasrnn", "Recurrent cell found by architecture search, hidden size 512", 0, 5, 0}, nasrnn},
      {{"repvgg_a0", "RepVGG-A0 as it is trained: 3x3, 1x1 and the input itself in each block", 224, 0, 0}, repvgg_a0},
      {{"resnet18", "ResNet-18", 224, 0, 0}, resnet18},
      {{"resnet3d_18", "ResNet-18 on video: 16 frames, 3-D convolutions", 112, 16, 0}, resnet3d_18},
      {{"resnet50", "ResNet-50", 224, 0, 0}, resnet50},
      {{"resnext50_32x4d", "ResNeXt-50, 32 groups of width 4", 224, 0, 0}, resnext50_32x4d},
      {{"rnntc", "SRU text classifier, hidden size 512", 0, 20, 2}, rnntc},
      {{"squeezenet1_1", "SqueezeNet 1.1", 224, 0, 0}, squeezenet1_1},
      {{"ssd_resnet50", "SSD detector on ResNet-50, six feature maps", 300, 0, 0}, ssd_resnet50},
      {{"tiny", "A small convolutional classifier for demonstrations", 32, 0, 0}, tiny},
      {{"vgg16", "VGG-16", 224, 0, 0}, vgg16},
      {{"vit_b_16", "Vision transformer, base, patches of 16", 224, 0, 12}, vit_b_16},
  };
  return all;
}

Expected<void> in_bounds(const char* option, int64_t value, int64_t high) {
  if (value < 0 || value > high)
    return Diagnostic("E-zoo-option", fmt::format("expected {} between 1 and {}, found {}", option, high, value));
  return {};
}

}  // namespace

const std::vector<Network>& networks() {
  static const std::vector<Network> all = [] {
    std::vector<Network> out;
    for (const Row& r : rows()) out.push_back(r.network);
    return out;
  }();
  return all;
}

Expected<ir::Graph> build(std::string_view name, const ir::OpTable& table, const Options& given) {
  const auto it = std::find_if(rows().begin(), rows().end(), [&](const Row& r) { return r.network.name == name; });
  if (it == rows().end()) {
    std::string known;
    for (const Row& r : rows()) known += (known.empty() ? "" : ", ") + r.network.name;
    return Diagnostic("E-zoo-name",
                      fmt::format("there is no network {} in the zoo; there are {}", quoted(name), known));
  }
  ISOMER_CHECK_OK(in_bounds("a batch", given.batch, 65536));
  ISOMER_CHECK_OK(in_bounds("an image size", given.image, 16384));
  ISOMER_CHECK_OK(in_bounds("a sequence length", given.sequence, 65536));
  ISOMER_CHECK_OK(in_bounds("a number of layers", given.layers, 1024));
  const auto unused = [&](const char* option, int64_t value, int64_t standard) -> Expected<void> {
    if (value != 0 && standard == 0)
      return Diagnostic("E-zoo-option", fmt::format("network {} has no {} to set", quoted(name), option));
    return {};
  };
  ISOMER_CHECK_OK(unused("image size", given.image, it->network.image));
  ISOMER_CHECK_OK(unused("sequence length", given.sequence, it->network.sequence));
  ISOMER_CHECK_OK(unused("number of layers", given.layers, it->network.layers));
  Options options = given;
  if (options.batch == 0) options.batch = 1;
  if (options.image == 0) options.image = it->network.image;
  if (options.sequence == 0) options.sequence = it->network.sequence;
  if (options.layers == 0) options.layers = it->network.layers;
  Net net(table, it->network.name, options);
  it->build(net);
  return std::move(net).finish();
}

}  // namespace isomer::zoo
