// One function per network, each in the file of its family.
#pragma once

#include "zoo/net.h"

namespace isomer::zoo {

void bert_base(Net& net);
void context_net(Net& net);
void csrnet(Net& net);
void densenet121(Net& net);
void efficientnet_b0(Net& net);
void gpt2_small(Net& net);
void inception_v3(Net& net);
void mobilenet_v2(Net& net);
void mobileone_s0(Net& net);
void nasnet_a(Net& net);
void nasrnn(Net& net);
void repvgg_a0(Net& net);
void resnet18(Net& net);
void resnet3d_18(Net& net);
void resnet50(Net& net);
void resnext50_32x4d(Net& net);
void rnntc(Net& net);
void squeezenet1_1(Net& net);
void ssd_resnet50(Net& net);
void tiny(Net& net);
void vgg16(Net& net);
void vit_b_16(Net& net);

// The image input all vision networks share.
Value image_input(Net& net);

// The residual stages of ResNet-50 up to `stages`, for networks that stand on it. `last_stride` is that of the last.
Value resnet50_body(Net& net, Value x, size_t stages, int64_t last_stride);

}  // namespace isomer::zoo
