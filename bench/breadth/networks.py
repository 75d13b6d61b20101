"""Networks outside of the zoo, written to ONNX with seeded random weights: bench/breadth calls it with a Python that has PyTorch.

    python3 networks.py FOLDER [NAME...]     writes FOLDER/NAME.onnx for each that is missing; without a name, all

Needs torch and torchvision (Debian: python3-torch, python3-torchvision).
"""
import os
import sys
import warnings

import torch
import torch.nn as nn
import torch.nn.functional as F
import torchvision.models as vision

import further
from registry import NETWORKS, Of, Residual, add, ids


def block(i, o, norm=nn.BatchNorm2d, act=nn.ReLU, **more):
    return nn.Sequential(nn.Conv2d(i, o, 3, padding=1, **more), norm(o), act())


def classifiers():
    for name in ('alexnet', 'mobilenet_v3_large', 'mobilenet_v3_small', 'shufflenet_v2_x1_0', 'mnasnet1_0', 'regnet_y_400mf', 'regnet_x_1_6gf',
                 'convnext_tiny', 'swin_t', 'vgg11_bn', 'wide_resnet50_2', 'efficientnet_v2_s', 'densenet169', 'maxvit_t', 'resnet34', 'squeezenet1_0',
                 'shufflenet_v2_x0_5', 'mnasnet0_5', 'regnet_y_1_6gf'):
        add(name, lambda name=name: getattr(vision, name)(weights=None), (1, 3, 224, 224))
    add('googlenet', lambda: vision.googlenet(weights=None, init_weights=False), (1, 3, 224, 224))
    add('efficientnet_b3', lambda: vision.efficientnet_b3(weights=None), (1, 3, 300, 300))
    add('resnet50_gn', lambda: vision.resnet50(weights=None, norm_layer=lambda c: nn.GroupNorm(32, c)), (1, 3, 224, 224))
    add('resnet50_448', lambda: vision.resnet50(weights=None), (1, 3, 448, 448))
    add('mobilenet_v2_512', lambda: vision.mobilenet_v2(weights=None), (1, 3, 512, 512))
    for batch in (4, 8):
        add('resnet18_b%d' % batch, lambda: vision.resnet18(weights=None), (batch, 3, 224, 224))
        add('mobilenet_v2_b%d' % batch, lambda: vision.mobilenet_v2(weights=None), (batch, 3, 224, 224))


def segmentation():
    s = vision.segmentation
    for name, make in (('deeplabv3', s.deeplabv3_resnet50), ('deeplabv3_mobile', s.deeplabv3_mobilenet_v3_large), ('fcn', s.fcn_resnet50),
                       ('lraspp', s.lraspp_mobilenet_v3_large)):
        add(name, lambda make=make: Of(make(weights=None, weights_backbone=None), 'out'), (1, 3, 256, 256))
    for name in ('r3d_18', 'r2plus1d_18', 'mc3_18'):
        add(name, lambda name=name: getattr(vision.video, name)(weights=None), (1, 3, 8, 112, 112))


class UNet(nn.Module):
    def __init__(self, norm=nn.BatchNorm2d, act=nn.ReLU, up='transposed', width=32, depth=4):
        super().__init__()
        w = [width * 2 ** k for k in range(depth + 1)]
        two = lambda i, o: nn.Sequential(block(i, o, norm, act), block(o, o, norm, act))
        self.up = up
        self.down = nn.ModuleList([two(3 if k == 0 else w[k - 1], w[k]) for k in range(depth + 1)])
        self.wide = nn.ModuleList([nn.ConvTranspose2d(w[k + 1], w[k], 2, 2) if up == 'transposed' else nn.Conv2d(w[k + 1], w[k], 1)
                                   for k in range(depth)])
        self.join = nn.ModuleList([two(2 * w[k], w[k]) for k in range(depth)])
        self.last = nn.Conv2d(width, 2, 1)

    def forward(self, x):
        skips = []
        for k, layer in enumerate(self.down):
            x = layer(x if k == 0 else F.max_pool2d(x, 2))
            skips.append(x)
        for k in reversed(range(len(self.wide))):
            if self.up != 'transposed':
                x = F.interpolate(x, scale_factor=2, mode=self.up, align_corners=False if self.up == 'bilinear' else None)
            x = self.join[k](torch.cat([skips[k], self.wide[k](x)], 1))
        return self.last(x)


class UNet3d(nn.Module):
    def __init__(self, c=16):
        super().__init__()
        two = lambda i, o: nn.Sequential(nn.Conv3d(i, o, 3, 1, 1), nn.BatchNorm3d(o), nn.ReLU(), nn.Conv3d(o, o, 3, 1, 1), nn.BatchNorm3d(o), nn.ReLU())
        self.a, self.b, self.c = two(1, c), two(c, 2 * c), two(2 * c, 4 * c)
        self.up1, self.d, self.up2, self.e = nn.ConvTranspose3d(4 * c, 2 * c, 2, 2), two(4 * c, 2 * c), nn.ConvTranspose3d(2 * c, c, 2, 2), two(2 * c, c)
        self.last = nn.Conv3d(c, 3, 1)

    def forward(self, x):
        a = self.a(x)
        b = self.b(F.max_pool3d(a, 2))
        c = self.c(F.max_pool3d(b, 2))
        x = self.d(torch.cat([b, self.up1(c)], 1))
        return self.last(self.e(torch.cat([a, self.up2(x)], 1)))


def pictures():
    add('unet', UNet, (1, 3, 256, 256))
    add('unet_bilinear', lambda: UNet(up='bilinear'), (1, 3, 256, 256))
    add('unet_instance', lambda: UNet(nn.InstanceNorm2d, nn.LeakyReLU, 'nearest'), (1, 3, 256, 256))
    add('unet_group', lambda: UNet(lambda c: nn.GroupNorm(8, c), nn.SiLU), (1, 3, 256, 256))
    add('unet3d', UNet3d, (1, 1, 32, 64, 64))
    deconv = lambda i, o, *a: [nn.ConvTranspose2d(i, o, *a), nn.BatchNorm2d(o), nn.ReLU()]
    add('dcgan', lambda: nn.Sequential(*deconv(100, 512, 4, 1, 0), *deconv(512, 256, 4, 2, 1), *deconv(256, 128, 4, 2, 1), *deconv(128, 64, 4, 2, 1),
                                       nn.ConvTranspose2d(64, 3, 4, 2, 1), nn.Tanh()), (1, 100, 1, 1))
    conv = lambda i, o, *a: [nn.Conv2d(i, o, *a), nn.InstanceNorm2d(o, affine=True), nn.ReLU()]
    same = lambda c: Residual(nn.ReflectionPad2d(1), *conv(c, c, 3), nn.ReflectionPad2d(1), nn.Conv2d(c, c, 3), nn.InstanceNorm2d(c, affine=True))
    add('style', lambda: nn.Sequential(nn.ReflectionPad2d(4), *conv(3, 32, 9), *conv(32, 64, 3, 2, 1), *conv(64, 128, 3, 2, 1), *[same(128) for _ in range(5)],
                                       nn.Upsample(scale_factor=2), *conv(128, 64, 3, 1, 1), nn.ConvTranspose2d(64, 32, 3, 2, 1, 1),
                                       nn.InstanceNorm2d(32, affine=True), nn.ReLU(), nn.Conv2d(32, 3, 9, 1, 4), nn.Tanh()), (1, 3, 256, 256))
    add('espcn', lambda: nn.Sequential(nn.Conv2d(1, 64, 5, 1, 2), nn.Tanh(), nn.Conv2d(64, 32, 3, 1, 1), nn.Tanh(), nn.Conv2d(32, 9, 3, 1, 1),
                                       nn.PixelShuffle(3)), (1, 1, 224, 224))
    step = lambda: Residual(nn.Conv2d(64, 64, 3, 1, 1), nn.ReLU(), nn.Conv2d(64, 64, 3, 1, 1), scale=0.1)
    add('edsr', lambda: nn.Sequential(nn.Conv2d(3, 64, 3, 1, 1), *[step() for _ in range(8)], nn.Conv2d(64, 256, 3, 1, 1), nn.PixelShuffle(2),
                                      nn.Conv2d(64, 3, 3, 1, 1)), (1, 3, 96, 96))
    apart = lambda i, d: nn.Sequential(nn.Conv2d(i, i, 3, 1, d, dilation=d, groups=i), nn.BatchNorm2d(i), nn.ReLU6(), nn.Conv2d(i, 96, 1), nn.BatchNorm2d(96),
                                       nn.ReLU6())
    add('separable_dilated', lambda: nn.Sequential(block(3, 32, stride=2), apart(32, 1), *[apart(96, 2 ** k) for k in range(1, 5)], nn.Conv2d(96, 21, 1)),
        (1, 3, 224, 224))
    add('mnist', lambda: nn.Sequential(nn.Conv2d(1, 32, 3), nn.ReLU(), nn.Conv2d(32, 64, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(9216, 128),
                                       nn.ReLU(), nn.Linear(128, 10), nn.LogSoftmax(1)), (1, 1, 28, 28))


class Gates(nn.Module):
    """A stack of gated dilated convolutions, as in WaveNet."""

    def __init__(self, c=64, n=12):
        super().__init__()
        layer = lambda k, d=1: nn.ModuleList([nn.Conv1d(c, c, k, dilation=2 ** (j % 8) * d, padding=2 ** (j % 8) * (k // 2)) if k > 1 else nn.Conv1d(c, c, 1)
                                              for j in range(n)])
        self.first, self.f, self.g, self.r, self.s = nn.Conv1d(1, c, 1), layer(3), layer(3), layer(1), layer(1)
        self.last = nn.Sequential(nn.ReLU(), nn.Conv1d(c, c, 1), nn.ReLU(), nn.Conv1d(c, 256, 1))

    def forward(self, x):
        x, total = self.first(x), 0
        for f, g, r, s in zip(self.f, self.g, self.r, self.s):
            z = torch.tanh(f(x)) * torch.sigmoid(g(x))
            x, total = x + r(z), total + s(z)
        return self.last(total)


class Separation(nn.Module):
    """Speech separation with masks, as in Conv-TasNet."""

    def __init__(self, n=256, b=128, h=256):
        super().__init__()
        layer = lambda d: Residual(nn.Conv1d(b, h, 1), nn.PReLU(), nn.GroupNorm(1, h), nn.Conv1d(h, h, 3, padding=d, dilation=d, groups=h), nn.PReLU(),
                                   nn.GroupNorm(1, h), nn.Conv1d(h, b, 1))
        self.encode, self.narrow, self.decode = nn.Conv1d(1, n, 16, 8), nn.Conv1d(n, b, 1), nn.ConvTranspose1d(n, 1, 16, 8)
        self.layers, self.mask = nn.Sequential(*[layer(2 ** j) for j in range(8)]), nn.Conv1d(b, n, 1)

    def forward(self, x):
        e = F.relu(self.encode(x))
        return self.decode(e * torch.sigmoid(self.mask(self.layers(self.narrow(e)))))


class Vocoder(nn.Module):
    """Mel spectra to sound, as in HiFi-GAN."""

    def __init__(self, c=128):
        super().__init__()
        self.first, self.up, self.layers = nn.Conv1d(80, c, 7, 1, 3), nn.ModuleList(), nn.ModuleList()
        for k, (stride, size) in enumerate([(8, 16), (8, 16), (2, 4), (2, 4)]):
            o = c // 2 ** (k + 1)
            self.up.append(nn.ConvTranspose1d(2 * o, o, size, stride, (size - stride) // 2))
            one = lambda s, d: Residual(nn.LeakyReLU(0.1), nn.Conv1d(o, o, s, 1, (s - 1) * d // 2, dilation=d), nn.LeakyReLU(0.1), nn.Conv1d(o, o, s, 1, s // 2))
            self.layers.append(nn.ModuleList([nn.Sequential(*[one(s, d) for d in (1, 3, 5)]) for s in (3, 7, 11)]))
        self.last = nn.Conv1d(c // 16, 1, 7, 1, 3)

    def forward(self, x):
        x = self.first(x)
        for up, layers in zip(self.up, self.layers):
            x = up(F.leaky_relu(x, 0.1))
            x = sum(layer(x) for layer in layers) / 3
        return torch.tanh(self.last(F.leaky_relu(x)))


def sounds():
    add('wavenet', Gates, (1, 1, 4000))
    causal = lambda d: [nn.ConstantPad1d((2 * d, 0), 0.0), nn.Conv1d(128, 128, 3, dilation=d), nn.ReLU()]
    add('tcn', lambda: nn.Sequential(nn.Conv1d(40, 128, 1), *[x for j in range(6) for x in causal(2 ** j)], nn.Conv1d(128, 30, 1)), (1, 40, 500))
    add('conv_tasnet', Separation, (1, 1, 8000))
    add('hifigan', Vocoder, (1, 80, 32))
    wave = lambda i, o, *a: [nn.Conv1d(i, o, *a), nn.BatchNorm1d(o), nn.ReLU(), nn.MaxPool1d(4)]
    add('m5', lambda: nn.Sequential(*wave(1, 64, 80, 4), *wave(64, 64, 3), *wave(64, 128, 3), *wave(128, 256, 3), nn.AdaptiveAvgPool1d(1), nn.Flatten(),
                                    nn.Linear(256, 35), nn.LogSoftmax(1)), (1, 1, 16000))
    heard = lambda i, o, k, s: [nn.Conv1d(i, o, k, s, bias=False), nn.GELU()]
    add('speech_encoder', lambda: nn.Sequential(*heard(1, 256, 10, 5), *[x for _ in range(4) for x in heard(256, 256, 3, 2)], *heard(256, 256, 2, 2)), (1, 1, 16000))


class Points(nn.Module):
    """Classification of clouds of points, as in PointNet."""

    def __init__(self):
        super().__init__()
        one = lambda i, o: [nn.Conv1d(i, o, 1), nn.BatchNorm1d(o), nn.ReLU()]
        self.each = nn.Sequential(*one(3, 64), *one(64, 128), *one(128, 1024))
        self.all = nn.Sequential(nn.Linear(1024, 512), nn.ReLU(), nn.Linear(512, 256), nn.ReLU(), nn.Linear(256, 40))

    def forward(self, x):
        return self.all(self.each(x).max(2)[0])


class Detector(nn.Module):
    """Boxes at two sizes from residual blocks with leaky rectifiers, as in YOLOv3."""

    def __init__(self):
        super().__init__()
        one = lambda i, o, k, s=1: nn.Sequential(nn.Conv2d(i, o, k, s, k // 2, bias=False), nn.BatchNorm2d(o), nn.LeakyReLU(0.1))
        step = lambda c, n: nn.Sequential(one(c // 2, c, 3, 2), *[Residual(one(c, c // 2, 1), one(c // 2, c, 3)) for _ in range(n)])
        self.first, self.second = nn.Sequential(one(3, 32, 3), step(64, 1), step(128, 2), step(256, 4)), step(512, 4)
        self.side, self.large, self.small = one(512, 128, 1), nn.Conv2d(512, 75, 1), nn.Sequential(one(384, 256, 3), nn.Conv2d(256, 75, 1))

    def forward(self, x):
        x = self.first(x)
        y = self.second(x)
        return self.large(y), self.small(torch.cat([F.interpolate(self.side(y), scale_factor=2), x], 1))


class Language(nn.Module):
    def __init__(self, words=10000, d=256, h=512):
        super().__init__()
        self.words, self.layers, self.last = nn.Embedding(words, d), nn.LSTM(d, h, 2), nn.Linear(h, words)

    def forward(self, x):
        return self.last(self.layers(self.words(x))[0])


class Reader(nn.Module):
    """Text in pictures: convolutions, then a recurrent network along the line."""

    def __init__(self):
        super().__init__()
        self.see = nn.Sequential(block(1, 64), nn.MaxPool2d(2), block(64, 128), nn.MaxPool2d(2), block(128, 256), block(256, 256), nn.MaxPool2d((2, 1)),
                                 block(256, 512), nn.MaxPool2d((2, 1)), nn.Conv2d(512, 512, (2, 1)))
        self.read, self.last = nn.LSTM(512, 256, 2, bidirectional=True), nn.Linear(512, 37)

    def forward(self, x):
        return self.last(self.read(self.see(x).squeeze(2).permute(2, 0, 1))[0])


class Words(nn.Module):
    """Text classification by convolutions over embedded words."""

    def __init__(self):
        super().__init__()
        self.words, self.layers, self.last = nn.Embedding(20000, 128), nn.ModuleList([nn.Conv1d(128, 100, k) for k in (3, 4, 5)]), nn.Linear(300, 5)

    def forward(self, x):
        x = self.words(x).transpose(1, 2)
        return self.last(torch.cat([F.relu(layer(x)).max(2)[0] for layer in self.layers], 1))


class Features(nn.Module):
    """Click prediction: embedded features and their products, as in DLRM."""

    def __init__(self):
        super().__init__()
        self.tables = nn.ModuleList([nn.Embedding(10000, 32) for _ in range(16)])
        self.dense = nn.Sequential(nn.Linear(13, 128), nn.ReLU(), nn.Linear(128, 32), nn.ReLU())
        self.top = nn.Sequential(nn.Linear(17 * 17 + 32, 256), nn.ReLU(), nn.Linear(256, 1), nn.Sigmoid())

    def forward(self, dense, sparse):
        z = torch.stack([self.dense(dense)] + [t(sparse[:, j]) for j, t in enumerate(self.tables)], 1)
        return self.top(torch.cat([z[:, 0], torch.bmm(z, z.transpose(1, 2)).flatten(1)], 1))


class Mixing(nn.Module):
    def __init__(self, places, c):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(c), nn.LayerNorm(c)
        self.along = nn.Sequential(nn.Linear(places, 256), nn.GELU(), nn.Linear(256, places))
        self.across = nn.Sequential(nn.Linear(c, 4 * c), nn.GELU(), nn.Linear(4 * c, c))

    def forward(self, x):
        x = x + self.along(self.n1(x).transpose(1, 2)).transpose(1, 2)
        return x + self.across(self.n2(x))


class Mixer(nn.Module):
    def __init__(self):
        super().__init__()
        self.cut, self.layers, self.norm, self.last = nn.Conv2d(3, 512, 16, 16), nn.Sequential(*[Mixing(196, 512) for _ in range(4)]), nn.LayerNorm(512), nn.Linear(512, 1000)

    def forward(self, x):
        return self.last(self.norm(self.layers(self.cut(x).flatten(2).transpose(1, 2))).mean(1))


class Neighbours(nn.Module):
    """Two layers of a graph network, the graph as a dense matrix."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(256, 64), nn.Linear(64, 16)

    def forward(self, x, graph):
        return torch.log_softmax(graph @ self.b(F.relu(graph @ self.a(x))), 1)


def sequences():
    add('lstm', lambda: Of(nn.LSTM(128, 256, 2), 0), (50, 1, 128))
    add('lstm_both_ways', lambda: Of(nn.LSTM(256, 512, 2, bidirectional=True), 0), (40, 1, 256))
    add('lstm_b16', lambda: Of(nn.LSTM(128, 256), 0), (50, 16, 128))
    add('gru', lambda: Of(nn.GRU(128, 256, 2), 0), (50, 1, 128))
    add('gru_b8', lambda: Of(nn.GRU(128, 256, bidirectional=True), 0), (50, 8, 128))
    add('gru_512', lambda: Of(nn.GRU(256, 512, 2), 0), (40, 1, 256))
    add('lstm_1024', lambda: Of(nn.LSTM(512, 1024), 0), (20, 1, 512))
    add('lstm_512_b4', lambda: Of(nn.LSTM(256, 512), 0), (30, 4, 256))
    add('rnn', lambda: Of(nn.RNN(128, 256), 0), (100, 1, 128))
    add('lstm_language', Language, ids(35, 1))
    add('crnn', Reader, (1, 1, 32, 128))
    add('text_cnn', Words, ids(1, 64))
    add('dlrm_b32', Features, (32, 13), ids(32, 16))
    add('gcn', Neighbours, (1000, 256), (1000, 1000))
    add('mixer', Mixer, (1, 3, 224, 224))
    add('transformer_encoder', lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(256, 8, 1024), 4), (100, 1, 256))
    add('transformer_encoder_b4', lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(256, 8, 1024, activation='gelu'), 2), (100, 4, 256))
    add('pointnet', Points, (1, 3, 1024))
    add('yolo', Detector, (1, 3, 256, 256))
    add('transformer', lambda: nn.Transformer(256, 4, 3, 3, 1024), (64, 1, 256), (32, 1, 256))
    add('mlp_b64', lambda: nn.Sequential(nn.Linear(512, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 100), nn.Softmax(1)), (64, 512))
    add('mlp', lambda: nn.Sequential(nn.Linear(16, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 4)), (1, 16))
    add('autoencoder', lambda: nn.Sequential(nn.Flatten(), nn.Linear(784, 400), nn.ReLU(), nn.Linear(400, 40), nn.Linear(40, 400), nn.ReLU(),
                                             nn.Linear(400, 784), nn.Sigmoid()), (1, 1, 28, 28))


def write(name, path):
    make, inputs = NETWORKS[name]
    torch.manual_seed(1)
    module = make().eval()
    for m in module.modules():  # statistics that do something
        if isinstance(m, (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)):
            m.running_mean.normal_(0, 0.1)
            m.running_var.uniform_(0.5, 1.5)
    with torch.no_grad():
        torch.onnx.export(module, tuple(inputs), path + '.part', opset_version=15)
    os.rename(path + '.part', path)


def main():
    warnings.filterwarnings('ignore')
    for family in (classifiers, segmentation, pictures, sounds, sequences) + further.FAMILIES:
        family()
    folder, wanted = sys.argv[1], sys.argv[2:] or list(NETWORKS)
    os.makedirs(folder, exist_ok=True)
    for name in wanted:
        path = os.path.join(folder, name + '.onnx')
        if not os.path.exists(path):
            try:
                write(name, path)
            except Exception as e:  # a network that this PyTorch cannot write is no reason to go without the others
                print('%s: %s' % (name, str(e).split('\n')[0][:200]), file=sys.stderr)


if __name__ == '__main__':
    main()
