"""More networks for networks.py, by kind: light classifiers, enhancement and segmentation of pictures, detectors, sound, and sequences in other sizes and batches."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
import torchvision.models as vision

from registry import Of, Residual, add, ids


def conv(i, o, k=3, s=1, g=1, act=nn.ReLU, d=1):
    return nn.Sequential(nn.Conv2d(i, o, k, s, (k - 1) // 2 * d, dilation=d, groups=g, bias=False), nn.BatchNorm2d(o), act())


def sum_of(*layers):
    return Joined(lambda parts: sum(parts), layers)


def concat_of(*layers):
    return Joined(lambda parts: torch.cat(parts, 1), layers)


class Joined(nn.Module):
    def __init__(self, how, layers):
        super().__init__()
        self.how, self.layers = how, nn.ModuleList(layers)

    def forward(self, x):
        return self.how([layer(x) for layer in self.layers])


class Call(nn.Module):
    """A function as a layer."""

    def __init__(self, f):
        super().__init__()
        self.f = f

    def forward(self, x):
        return self.f(x)


class Scaled(nn.Module):
    """x times a gate computed of x."""

    def __init__(self, *gate):
        super().__init__()
        self.gate = nn.Sequential(*gate)

    def forward(self, x):
        return x * self.gate(x)


def squeeze(c, r=4, last=nn.Sigmoid):
    return Scaled(nn.AdaptiveAvgPool2d(1), nn.Conv2d(c, c // r, 1), nn.ReLU(), nn.Conv2d(c // r, c, 1), last())


def head(c, classes=1000):
    return [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(c, classes)]


class Ghost(nn.Module):
    """Half of the channels by a product, half by a depthwise convolution of those."""

    def __init__(self, i, o, act=nn.ReLU):
        super().__init__()
        self.first, self.cheap = conv(i, o // 2, 1, act=act), conv(o // 2, o - o // 2, 3, g=o // 2, act=act)

    def forward(self, x):
        x = self.first(x)
        return torch.cat([x, self.cheap(x)], 1)


def shuffle(x, groups):
    n, c, h, w = x.shape
    return x.view(n, groups, c // groups, h, w).transpose(1, 2).reshape(n, c, h, w)


class Res2(nn.Module):
    """Groups of channels that go through one after the other."""

    def __init__(self, c, n=4):
        super().__init__()
        self.n, self.layers = n, nn.ModuleList([conv(c // n, c // n) for _ in range(n - 1)])

    def forward(self, x):
        parts = list(x.chunk(self.n, 1))
        for k, layer in enumerate(self.layers):
            parts[k + 1] = layer(parts[k + 1] + parts[k] if k else parts[k + 1])
        return torch.cat(parts, 1)


def residual(i, o, s=1, act=nn.ReLU, middle=None):
    short = nn.Identity() if i == o and s == 1 else conv(i, o, 1, s, act=nn.Identity)
    return nn.Sequential(sum_of(short, middle or nn.Sequential(conv(i, o, 3, s, act=act), conv(o, o, act=nn.Identity))), act())


def inverted(i, o, k=3, s=1, e=6, act=nn.ReLU6, se=False):
    body = [conv(i, i * e, 1, act=act), conv(i * e, i * e, k, s, g=i * e, act=act)] + [squeeze(i * e)] * se + [conv(i * e, o, 1, act=nn.Identity)]
    return Residual(*body) if i == o and s == 1 else nn.Sequential(*body)


def xception(i, o, s=1):
    apart = lambda a, b: nn.Sequential(nn.ReLU(), nn.Conv2d(a, a, 3, 1, 1, groups=a, bias=False), nn.Conv2d(a, b, 1, bias=False), nn.BatchNorm2d(b))
    return sum_of(nn.Identity() if i == o and s == 1 else conv(i, o, 1, s, act=nn.Identity),
                  nn.Sequential(apart(i, o), apart(o, o), apart(o, o) if s == 1 else nn.MaxPool2d(3, 2, 1)))


def light():
    for name in ('resnet101', 'vit_b_32', 'regnet_x_400mf', 'regnet_y_800mf', 'mnasnet1_3', 'mnasnet0_75', 'shufflenet_v2_x2_0', 'shufflenet_v2_x1_5', 'densenet201', 'vgg13',
                 'efficientnet_b1', 'swin_s', 'convnext_small'):
        add(name, lambda name=name: getattr(vision, name)(weights=None), (1, 3, 224, 224))
    for name in ('resnet50', 'mobilenet_v3_large', 'efficientnet_b0', 'squeezenet1_1', 'shufflenet_v2_x1_0', 'mnasnet1_0'):
        add(name + '_b8', lambda name=name: getattr(vision, name)(weights=None), (8, 3, 224, 224))
    add('mobilenet_v2_96', lambda: vision.mobilenet_v2(weights=None, width_mult=0.35), (1, 3, 96, 96))
    separable = lambda i, o, s=1: nn.Sequential(conv(i, i, 3, s, g=i), conv(i, o, 1))
    def mobilenet_v1(w):
        c = lambda n: int(n * w)
        body = [(32, 64, 1), (64, 128, 2), (128, 128, 1), (128, 256, 2), (256, 256, 1), (256, 512, 2)] + [(512, 512, 1)] * 5 + [(512, 1024, 2), (1024, 1024, 1)]
        return nn.Sequential(conv(3, c(32), 3, 2), *[separable(c(i), c(o), s) for i, o, s in body], *head(c(1024)))
    add('mobilenet_v1', lambda: mobilenet_v1(1), (1, 3, 224, 224))
    add('mobilenet_v1_025', lambda: mobilenet_v1(0.25), (1, 3, 128, 128))
    ghost = lambda i, m, o, se=False: Residual(Ghost(i, m), *[squeeze(m, last=nn.Hardsigmoid)] * se, Ghost(m, o, nn.Identity)) if i == o else nn.Sequential(
        Ghost(i, m), conv(m, m, 3, 2, g=m, act=nn.Identity), *[squeeze(m, last=nn.Hardsigmoid)] * se, Ghost(m, o, nn.Identity))
    add('ghostnet', lambda: nn.Sequential(conv(3, 16, 3, 2), ghost(16, 16, 16), ghost(16, 48, 24), ghost(24, 72, 24), ghost(24, 72, 40, True), ghost(40, 120, 40, True),
                                          ghost(40, 240, 80), *[ghost(80, 184, 80)] * 3, ghost(80, 480, 160, True), *[ghost(160, 960, 160, True)] * 3, conv(160, 960, 1), *head(960)),
        (1, 3, 224, 224))
    group = lambda c, g: nn.Sequential(Residual(conv(c, c // 4, 1, g=g), Call(lambda x: shuffle(x, g)), conv(c // 4, c // 4, 3, g=c // 4, act=nn.Identity),
                                                conv(c // 4, c, 1, g=g, act=nn.Identity)), nn.ReLU())
    add('shufflenet_v1', lambda: nn.Sequential(conv(3, 24, 3, 2), nn.MaxPool2d(3, 2, 1), conv(24, 240, 1, 2), *[group(240, 3) for _ in range(3)], conv(240, 480, 1, 2, g=3),
                                               *[group(480, 3) for _ in range(5)], conv(480, 960, 1, 2, g=3), *[group(960, 3) for _ in range(2)], *head(960)), (1, 3, 224, 224))
    def repvgg():
        block = lambda i, o, s: nn.Sequential(sum_of(conv(i, o, 3, s, act=nn.Identity), conv(i, o, 1, s, act=nn.Identity)), nn.ReLU())
        return nn.Sequential(block(3, 48, 2), block(48, 48, 2), block(48, 96, 2), *[block(96, 96, 1) for _ in range(3)], block(96, 192, 2), *[block(192, 192, 1) for _ in range(8)],
                             block(192, 1280, 2), *head(1280))
    add('repvgg_a0', repvgg, (1, 3, 224, 224))
    add('xception', lambda: nn.Sequential(conv(3, 32, 3, 2), conv(32, 64), xception(64, 128, 2), xception(128, 256, 2), xception(256, 728, 2), *[xception(728, 728) for _ in range(4)],
                                          *head(728)), (1, 3, 224, 224))
    add('convmixer', lambda: nn.Sequential(nn.Conv2d(3, 256, 7, 7), nn.GELU(), nn.BatchNorm2d(256), *[nn.Sequential(Residual(conv(256, 256, 9, g=256, act=nn.GELU)),
                                           conv(256, 256, 1, act=nn.GELU)) for _ in range(8)], *head(256)), (1, 3, 224, 224))
    add('poolformer', lambda: nn.Sequential(nn.Conv2d(3, 64, 7, 4, 2), *[layer for _ in range(4) for layer in (Residual(nn.GroupNorm(1, 64), nn.AvgPool2d(3, 1, 1)), Residual(
        nn.GroupNorm(1, 64), nn.Conv2d(64, 256, 1), nn.GELU(), nn.Conv2d(256, 64, 1)))], *head(64)), (1, 3, 224, 224))
    add('senet', lambda: nn.Sequential(conv(3, 64, 7, 2), nn.MaxPool2d(3, 2, 1), *[nn.Sequential(Residual(conv(64, 64), conv(64, 64, act=nn.Identity), squeeze(64, 16)), nn.ReLU())
                                       for _ in range(4)], *head(64)), (1, 3, 224, 224))
    add('res2net', lambda: nn.Sequential(conv(3, 64, 7, 2), nn.MaxPool2d(3, 2, 1), *[residual(64, 64, middle=nn.Sequential(conv(64, 104, 1), Res2(104), conv(104, 64, 1, act=nn.Identity)))
                                         for _ in range(4)], *head(64)), (1, 3, 224, 224))
    add('darknet19', lambda: nn.Sequential(*[x for i, o in ((3, 32), (32, 64)) for x in (conv(i, o, act=leaky), nn.MaxPool2d(2))], *[x for i in (64, 128, 256) for x in (
        conv(i, 2 * i, act=leaky), conv(2 * i, i, 1, act=leaky), conv(i, 2 * i, act=leaky), nn.MaxPool2d(2))], conv(512, 1000, 1), *head(1000)), (1, 3, 224, 224))
    cifar = lambda: nn.Sequential(conv(3, 16), *[residual(16, 16) for _ in range(3)], residual(16, 32, 2), *[residual(32, 32) for _ in range(2)], residual(32, 64, 2),
                                  *[residual(64, 64) for _ in range(2)], *head(64, 10))
    add('resnet20_cifar', cifar, (1, 3, 32, 32))
    add('resnet20_cifar_b32', cifar, (32, 3, 32, 32))
    add('lenet5', lambda: nn.Sequential(nn.Conv2d(1, 6, 5, padding=2), nn.Tanh(), nn.AvgPool2d(2), nn.Conv2d(6, 16, 5), nn.Tanh(), nn.AvgPool2d(2), nn.Flatten(), nn.Linear(400, 120), nn.Tanh(),
                                        nn.Linear(120, 84), nn.Tanh(), nn.Linear(84, 10)), (1, 1, 28, 28))
    add('all_conv_cifar', lambda: nn.Sequential(conv(3, 96), conv(96, 96), conv(96, 96, 3, 2), conv(96, 192), conv(192, 192), conv(192, 192, 3, 2), conv(192, 192), conv(192, 192, 1),
                                                conv(192, 10, 1), nn.AdaptiveAvgPool2d(1)), (1, 3, 32, 32))
    add('iresnet', lambda: nn.Sequential(conv(3, 64, act=lambda: nn.PReLU(64)), *[nn.Sequential(conv(i, o, 1, 2, act=nn.Identity), Residual(nn.BatchNorm2d(o), nn.Conv2d(o, o, 3, 1, 1), nn.BatchNorm2d(o),
                                         nn.PReLU(o), nn.Conv2d(o, o, 3, 1, 1), nn.BatchNorm2d(o))) for i, o in ((64, 64), (64, 128), (128, 256), (256, 512))], nn.Flatten(),
                                         nn.Linear(512 * 49, 512)), (1, 3, 112, 112))


def leaky():
    return nn.LeakyReLU(0.1)


class Dense(nn.Module):
    """A dense block with a residual, as in ESRGAN."""

    def __init__(self, c=64, g=32):
        super().__init__()
        self.layers = nn.ModuleList([nn.Conv2d(c + k * g, g if k < 4 else c, 3, 1, 1) for k in range(5)])

    def forward(self, x):
        y = [x]
        for k, layer in enumerate(self.layers):
            z = layer(torch.cat(y, 1))
            y.append(F.leaky_relu(z, 0.2) if k < 4 else z)
        return x + y[-1] * 0.2


class Pyramid(nn.Module):
    """Features pooled to several sizes and brought back, as in PSPNet."""

    def __init__(self, c):
        super().__init__()
        self.layers = nn.ModuleList([nn.Sequential(nn.AdaptiveAvgPool2d(n), conv(c, c // 4, 1)) for n in (1, 2, 4, 8)])

    def forward(self, x):
        return torch.cat([x] + [F.interpolate(layer(x), size=x.shape[2:], mode='bilinear', align_corners=False) for layer in self.layers], 1)


class Fused(nn.Module):
    """Two resolutions side by side that exchange what they know, as in HRNet."""

    def __init__(self, c=32):
        super().__init__()
        self.fine, self.coarse = residual(c, c), residual(2 * c, 2 * c)
        self.down, self.up = conv(c, 2 * c, 3, 2, act=nn.Identity), conv(2 * c, c, 1, act=nn.Identity)

    def forward(self, x):
        a, b = self.fine(x[0]), self.coarse(x[1])
        return F.relu(a + F.interpolate(self.up(b), scale_factor=2)), F.relu(b + self.down(a))


class Resolutions(nn.Module):
    def __init__(self, c=32):
        super().__init__()
        self.first, self.down, self.layers, self.last = nn.Sequential(conv(3, 64, 3, 2), conv(64, c, 3, 2)), conv(c, 2 * c, 3, 2), nn.Sequential(*[Fused(c) for _ in range(4)]), nn.Conv2d(c, 17, 1)

    def forward(self, x):
        x = self.first(x)
        return self.last(self.layers((x, self.down(x)))[0])


class Translation(nn.Module):
    """Pictures to pictures with skips and 4x4 taps, as in pix2pix."""

    def __init__(self, c=32, depth=5):
        super().__init__()
        w = [3] + [c * min(8, 2 ** k) for k in range(depth)]
        self.down = nn.ModuleList([nn.Sequential(nn.Conv2d(w[k], w[k + 1], 4, 2, 1), nn.BatchNorm2d(w[k + 1]), nn.LeakyReLU(0.2)) for k in range(depth)])
        self.up = nn.ModuleList([nn.ConvTranspose2d(w[k + 1] * (1 if k == depth - 1 else 2), max(w[k], 3), 4, 2, 1) for k in range(depth)])

    def forward(self, x):
        skips = []
        for layer in self.down:
            x = layer(x)
            skips.append(x)
        for k in reversed(range(len(self.up))):
            x = self.up[k](x if k == len(self.up) - 1 else torch.cat([F.relu(x), skips[k]], 1))
        return torch.tanh(x)


def images():
    add('srcnn', lambda: nn.Sequential(nn.Conv2d(1, 64, 9, 1, 4), nn.ReLU(), nn.Conv2d(64, 32, 5, 1, 2), nn.ReLU(), nn.Conv2d(32, 1, 5, 1, 2)), (1, 1, 128, 128))
    add('fsrcnn', lambda: nn.Sequential(nn.Conv2d(1, 56, 5, 1, 2), nn.PReLU(56), nn.Conv2d(56, 12, 1), nn.PReLU(12), *[x for _ in range(4) for x in (nn.Conv2d(12, 12, 3, 1, 1), nn.PReLU(12))],
                                        nn.Conv2d(12, 56, 1), nn.PReLU(56), nn.ConvTranspose2d(56, 1, 9, 3, 4, 2)), (1, 1, 128, 128))
    add('dncnn', lambda: Residual(nn.Conv2d(1, 64, 3, 1, 1), nn.ReLU(), *[conv(64, 64) for _ in range(8)], nn.Conv2d(64, 1, 3, 1, 1)), (1, 1, 128, 128))
    add('esrgan', lambda: nn.Sequential(nn.Conv2d(3, 64, 3, 1, 1), *[Dense() for _ in range(3)], nn.Upsample(scale_factor=2), nn.Conv2d(64, 64, 3, 1, 1), leaky(), nn.Conv2d(64, 3, 3, 1, 1)), (1, 3, 64, 64))
    add('espcn_rgb', lambda: nn.Sequential(nn.Conv2d(3, 64, 5, 1, 2), nn.ReLU(), nn.Conv2d(64, 32, 3, 1, 1), nn.ReLU(), nn.Conv2d(32, 12, 3, 1, 1), nn.PixelShuffle(2)), (1, 3, 128, 128))
    add('zero_dce', lambda: nn.Sequential(nn.Conv2d(3, 32, 3, 1, 1), nn.ReLU(), *[x for _ in range(5) for x in (nn.Conv2d(32, 32, 3, 1, 1), nn.ReLU())], nn.Conv2d(32, 24, 3, 1, 1), nn.Tanh()),
        (1, 3, 192, 192))
    down = lambda i, o: nn.Sequential(nn.Conv2d(i, o, 3, 2, 1), nn.InstanceNorm2d(o), nn.ReLU())
    up = lambda i, o: nn.Sequential(nn.ConvTranspose2d(i, o, 3, 2, 1, 1), nn.InstanceNorm2d(o), nn.ReLU())
    inner = lambda c: Residual(nn.ReflectionPad2d(1), nn.Conv2d(c, c, 3), nn.InstanceNorm2d(c), nn.ReLU(), nn.ReflectionPad2d(1), nn.Conv2d(c, c, 3), nn.InstanceNorm2d(c))
    add('cyclegan', lambda: nn.Sequential(nn.ReflectionPad2d(3), nn.Conv2d(3, 32, 7), nn.InstanceNorm2d(32), nn.ReLU(), down(32, 64), down(64, 128), *[inner(128) for _ in range(3)], up(128, 64), up(64, 32),
                                          nn.ReflectionPad2d(3), nn.Conv2d(32, 3, 7), nn.Tanh()), (1, 3, 128, 128))
    add('pix2pix', Translation, (1, 3, 256, 256))
    add('dcgan_judge', lambda: nn.Sequential(nn.Conv2d(3, 64, 4, 2, 1), leaky(), *[nn.Sequential(nn.Conv2d(i, 2 * i, 4, 2, 1), nn.BatchNorm2d(2 * i), leaky()) for i in (64, 128, 256)],
                                             nn.Conv2d(512, 1, 4), nn.Sigmoid()), (1, 3, 64, 64))
    add('vae', lambda: nn.Sequential(nn.Conv2d(3, 32, 3, 2, 1), nn.ReLU(), nn.Conv2d(32, 64, 3, 2, 1), nn.ReLU(), nn.Conv2d(64, 128, 3, 2, 1), nn.ReLU(), nn.Flatten(), nn.Linear(8192, 128), nn.Linear(128, 8192),
                                     Call(lambda x: x.reshape(1, 128, 8, 8)), up(128, 64), up(64, 32), nn.ConvTranspose2d(32, 3, 3, 2, 1, 1), nn.Sigmoid()), (1, 3, 64, 64))
    add('pspnet', lambda: nn.Sequential(conv(3, 64, 3, 2), conv(64, 128, 3, 2), residual(128, 256, 2), conv(256, 256, d=2), conv(256, 256, d=4), Pyramid(256), conv(512, 128), nn.Conv2d(128, 21, 1),
                                        nn.Upsample(scale_factor=8, mode='bilinear')), (1, 3, 256, 256))
    add('fast_scnn', lambda: nn.Sequential(conv(3, 32, 3, 2), *[nn.Sequential(conv(i, i, 3, 2, g=i), conv(i, o, 1)) for i, o in ((32, 48), (48, 64))], inverted(64, 64, s=2), *[inverted(64, 64) for _ in range(2)],
                                           inverted(64, 96, s=2), *[inverted(96, 96) for _ in range(2)], inverted(96, 128), *[inverted(128, 128) for _ in range(2)], Pyramid(128), conv(256, 128, 1),
                                           nn.Conv2d(128, 19, 1), nn.Upsample(scale_factor=8, mode='bilinear')), (1, 3, 256, 512))
    add('hrnet', Resolutions, (1, 3, 256, 192))
    add('enet', lambda: nn.Sequential(conv(3, 16, 3, 2), nn.MaxPool2d(2), conv(16, 64, 1), *[residual(64, 64, middle=nn.Sequential(conv(64, 16, 1), conv(16, 16, d=d), conv(16, 64, 1, act=nn.Identity)))
                                      for d in (1, 2, 4, 8)], nn.ConvTranspose2d(64, 16, 2, 2), nn.ReLU(), nn.ConvTranspose2d(16, 12, 2, 2)), (1, 3, 256, 256))
    add('hourglass', lambda: nn.Sequential(conv(3, 64, 7, 2), residual(64, 128, 2), sum_of(residual(128, 128), nn.Sequential(nn.MaxPool2d(2), residual(128, 128), sum_of(residual(128, 128), nn.Sequential(
        nn.MaxPool2d(2), residual(128, 128), nn.Upsample(scale_factor=2))), nn.Upsample(scale_factor=2))), nn.Conv2d(128, 16, 1)), (1, 3, 256, 256))


class Fast(nn.Module):
    """A part of the channels through residual blocks, all joined again, as in YOLOv8."""

    def __init__(self, i, o, n):
        super().__init__()
        self.first, self.layers = conv(i, o, 1, act=nn.SiLU), nn.ModuleList([Residual(conv(o // 2, o // 2, act=nn.SiLU), conv(o // 2, o // 2, act=nn.SiLU)) for _ in range(n)])
        self.last = conv(o // 2 * (2 + n), o, 1, act=nn.SiLU)

    def forward(self, x):
        y = list(self.first(x).chunk(2, 1))
        for layer in self.layers:
            y.append(layer(y[-1]))
        return self.last(torch.cat(y, 1))


class Pools(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.first, self.pool, self.last = conv(c, c // 2, 1, act=nn.SiLU), nn.MaxPool2d(5, 1, 2), conv(2 * c, c, 1, act=nn.SiLU)

    def forward(self, x):
        y = [self.first(x)]
        for _ in range(3):
            y.append(self.pool(y[-1]))
        return self.last(torch.cat(y, 1))


class Boxes(nn.Module):
    """A small detector with boxes at three sizes, their places read off softmaxed distances."""

    def __init__(self, w=16, classes=80):
        super().__init__()
        c = lambda i, o: conv(i, o, 3, 2, act=nn.SiLU)
        self.a = nn.Sequential(c(3, w), c(w, 2 * w), Fast(2 * w, 2 * w, 1), c(2 * w, 4 * w), Fast(4 * w, 4 * w, 2))
        self.b, self.c = nn.Sequential(c(4 * w, 8 * w), Fast(8 * w, 8 * w, 2)), nn.Sequential(c(8 * w, 16 * w), Fast(16 * w, 16 * w, 1), Pools(16 * w))
        self.up1, self.up2 = Fast(24 * w, 8 * w, 1), Fast(12 * w, 4 * w, 1)
        self.heads = nn.ModuleList([nn.Sequential(conv(k * w, 4 * w, act=nn.SiLU), nn.Conv2d(4 * w, 64 + classes, 1)) for k in (4, 8, 16)])

    def forward(self, x):
        a = self.a(x)
        b = self.b(a)
        c = self.c(b)
        b = self.up1(torch.cat([F.interpolate(c, scale_factor=2), b], 1))
        a = self.up2(torch.cat([F.interpolate(b, scale_factor=2), a], 1))
        z = torch.cat([h(y).flatten(2) for h, y in zip(self.heads, (a, b, c))], 2)
        box = z[:, :64].view(1, 4, 16, -1).softmax(2).transpose(1, 2)
        return (box * torch.arange(16.0).view(1, 16, 1, 1)).sum(1), z[:, 64:].sigmoid()


class Levels(nn.Module):
    """Feature pyramid and shared heads, as in RetinaNet."""

    def __init__(self, c=64):
        super().__init__()
        self.a, self.b, self.c = nn.Sequential(conv(3, 32, 3, 2), conv(32, 64, 3, 2), residual(64, 128, 2)), residual(128, 256, 2), residual(256, 512, 2)
        self.side = nn.ModuleList([nn.Conv2d(i, c, 1) for i in (128, 256, 512)])
        self.head = nn.Sequential(*[x for _ in range(2) for x in (nn.Conv2d(c, c, 3, 1, 1), nn.ReLU())], nn.Conv2d(c, 36, 3, 1, 1))

    def forward(self, x):
        a = self.a(x)
        b = self.b(a)
        p = [s(y) for s, y in zip(self.side, (a, b, self.c(b)))]
        p[1] = p[1] + F.interpolate(p[2], scale_factor=2)
        p[0] = p[0] + F.interpolate(p[1], scale_factor=2)
        return torch.cat([self.head(y).permute(0, 2, 3, 1).reshape(1, -1, 4) for y in p], 1)


def detectors():
    add('yolov8_like', Boxes, (1, 3, 320, 320))
    add('retina', Levels, (1, 3, 256, 256))
    add('pnet', lambda: nn.Sequential(nn.Conv2d(3, 10, 3), nn.PReLU(10), nn.MaxPool2d(2, 2, ceil_mode=True), nn.Conv2d(10, 16, 3), nn.PReLU(16), nn.Conv2d(16, 32, 3), nn.PReLU(32),
                                      concat_of(nn.Sequential(nn.Conv2d(32, 2, 1), nn.Softmax(1)), nn.Conv2d(32, 4, 1))), (1, 3, 120, 160))
    add('blazeface', lambda: nn.Sequential(conv(3, 24, 5, 2), *[nn.Sequential(Residual(nn.Conv2d(24, 24, 5, 1, 2, groups=24), nn.Conv2d(24, 24, 1)), nn.ReLU()) for _ in range(4)], conv(24, 48, 3, 2),
                                           *[nn.Sequential(Residual(nn.Conv2d(48, 48, 5, 1, 2, groups=48), nn.Conv2d(48, 48, 1)), nn.ReLU()) for _ in range(4)], nn.Conv2d(48, 32, 1)), (1, 3, 128, 128))
    add('mask_head', lambda: nn.Sequential(*[conv(256, 256) for _ in range(4)], nn.ConvTranspose2d(256, 256, 2, 2), nn.ReLU(), nn.Conv2d(256, 80, 1)), (8, 256, 14, 14))
    add('ssdlite', lambda: nn.Sequential(conv(3, 16, 3, 2, act=nn.Hardswish), inverted(16, 24, 3, 2, 4), inverted(24, 24, 3, 1, 3), inverted(24, 40, 5, 2, 3, nn.Hardswish, True),
                                         *[inverted(40, 40, 5, 1, 3, nn.Hardswish, True) for _ in range(2)], inverted(40, 80, 3, 2, 6, nn.Hardswish), inverted(80, 112, 3, 1, 6, nn.Hardswish, True),
                                         concat_of(nn.Sequential(conv(112, 112, g=112), nn.Conv2d(112, 24, 1)), nn.Sequential(conv(112, 112, g=112), nn.Conv2d(112, 126, 1)))), (1, 3, 320, 320))
    add('voxnet', lambda: nn.Sequential(nn.Conv3d(1, 32, 5, 2), nn.LeakyReLU(), nn.Conv3d(32, 32, 3), nn.LeakyReLU(), nn.MaxPool3d(2), nn.Flatten(), nn.Linear(6912, 128), nn.ReLU(), nn.Linear(128, 10)),
        (1, 1, 32, 32, 32))


def conv1(i, o, k=3, s=1, g=1, d=1, act=nn.ReLU):
    return nn.Sequential(nn.Conv1d(i, o, k, s, (k - 1) // 2 * d, dilation=d, groups=g, bias=False), nn.BatchNorm1d(o), act())


class Attention(nn.Module):
    def __init__(self, c, heads):
        super().__init__()
        self.heads, self.qkv, self.out = heads, nn.Linear(c, 3 * c), nn.Linear(c, c)

    def forward(self, x):
        n, length, c = x.shape
        q, k, v = (y.view(n, length, self.heads, -1).transpose(1, 2) for y in self.qkv(x).chunk(3, -1))
        z = (q @ k.transpose(2, 3) / math.sqrt(c // self.heads)).softmax(-1) @ v
        return self.out(z.transpose(1, 2).reshape(n, length, c))


def encoder(c, heads, n):
    layer = lambda: [Residual(nn.LayerNorm(c), Attention(c, heads)), Residual(nn.LayerNorm(c), nn.Linear(c, 4 * c), nn.GELU(), nn.Linear(4 * c, c))]
    return nn.Sequential(*[x for _ in range(n) for x in layer()], nn.LayerNorm(c))


class Conformer(nn.Module):
    """Attention and convolutions in turns."""

    def __init__(self, c=144, heads=4):
        super().__init__()
        wide = lambda: nn.Sequential(nn.LayerNorm(c), nn.Linear(c, 4 * c), nn.SiLU(), nn.Linear(4 * c, c))
        self.a, self.b, self.norm, self.attend = wide(), wide(), nn.LayerNorm(c), Attention(c, heads)
        self.before, self.gate = nn.LayerNorm(c), nn.Conv1d(c, 2 * c, 1)
        self.along, self.last = nn.Sequential(nn.Conv1d(c, c, 31, 1, 15, groups=c), nn.BatchNorm1d(c), nn.SiLU(), nn.Conv1d(c, c, 1)), nn.LayerNorm(c)

    def forward(self, x):
        x = x + self.a(x) * 0.5
        x = x + self.attend(self.norm(x))
        x = x + self.along(F.glu(self.gate(self.before(x).transpose(1, 2)), 1)).transpose(1, 2)
        return self.last(x + self.b(x) * 0.5)


class Hearing(nn.Module):
    """Spectra to states: two convolutions and a transformer, as in Whisper."""

    def __init__(self, c=384, n=2):
        super().__init__()
        self.see = nn.Sequential(nn.Conv1d(80, c, 3, 1, 1), nn.GELU(), nn.Conv1d(c, c, 3, 2, 1), nn.GELU())
        self.layers = encoder(c, 6, n)

    def forward(self, x):
        return self.layers(self.see(x).transpose(1, 2))


class Listener(nn.Module):
    """Spectra to letters: convolutions, then a recurrent network, as in DeepSpeech."""

    def __init__(self):
        super().__init__()
        self.see = nn.Sequential(nn.Conv2d(1, 32, (41, 11), (2, 2), (20, 5)), nn.BatchNorm2d(32), nn.Hardtanh(0, 20), nn.Conv2d(32, 32, (21, 11), (2, 1), (10, 5)), nn.BatchNorm2d(32), nn.Hardtanh(0, 20))
        self.read, self.last = nn.GRU(32 * 41, 256, 2, bidirectional=True), nn.Linear(512, 29)

    def forward(self, x):
        return self.last(self.read(self.see(x).flatten(1, 2).permute(2, 0, 1))[0])


def hearing():
    add('quartznet', lambda: nn.Sequential(conv1(64, 256, 33, 2), *[nn.Sequential(conv1(256, 256, k, g=256, act=nn.Identity), conv1(256, 256, 1)) for k in (33, 33, 39, 39, 51)], conv1(256, 512, 1),
                                           nn.Conv1d(512, 29, 1)), (1, 64, 500))
    add('ds_cnn', lambda: nn.Sequential(nn.Conv2d(1, 64, (10, 4), 2, (5, 1)), nn.BatchNorm2d(64), nn.ReLU(), *[nn.Sequential(conv(64, 64, g=64), conv(64, 64, 1)) for _ in range(4)], *head(64, 12)), (1, 1, 49, 10))
    add('inception_time', lambda: nn.Sequential(*[nn.Sequential(concat_of(*[nn.Conv1d(i, 32, k, 1, k // 2) for k in (9, 19, 39)], nn.Sequential(nn.MaxPool1d(3, 1, 1), nn.Conv1d(i, 32, 1))), nn.BatchNorm1d(128), nn.ReLU())
                                                for i in (8, 128, 128)], nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(128, 5)), (1, 8, 512))
    add('resnet1d', lambda: nn.Sequential(conv1(12, 64, 15, 2), *[nn.Sequential(conv1(i, o, 7, 2), Residual(conv1(o, o, 7), conv1(o, o, 7))) for i, o in ((64, 64), (64, 128), (128, 256))],
                                          nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(256, 9)), (1, 12, 2000))
    add('crepe', lambda: nn.Sequential(nn.Conv1d(1, 128, 512, 4, 254), nn.ReLU(), nn.BatchNorm1d(128), nn.MaxPool1d(2), nn.Conv1d(128, 32, 64, 1, 32), nn.ReLU(), nn.MaxPool1d(2), nn.Conv1d(32, 64, 64, 1, 32), nn.ReLU(),
                                       nn.MaxPool1d(2), nn.Flatten(), nn.Linear(2048, 360), nn.Sigmoid()), (4, 1, 1024))
    glu = lambda i, o: nn.Sequential(nn.Conv1d(i, o, 8, 4, 2), nn.ReLU(), nn.Conv1d(o, 2 * o, 1), nn.GLU(1))
    back = lambda i, o: nn.Sequential(nn.Conv1d(i, 2 * i, 3, 1, 1), nn.GLU(1), nn.ConvTranspose1d(i, o, 8, 4, 2), nn.ReLU())
    add('demucs', lambda: nn.Sequential(glu(1, 48), glu(48, 96), glu(96, 192), back(192, 96), back(96, 48), back(48, 1)), (1, 1, 16384))
    add('conformer', lambda: nn.Sequential(*[Conformer() for _ in range(4)]), (1, 200, 144))
    add('whisper_like', Hearing, (1, 80, 1000))
    add('deepspeech', Listener, (1, 1, 161, 100))
    add('x_vector', lambda: nn.Sequential(*[nn.Sequential(nn.Conv1d(i, o, k, dilation=d), nn.ReLU(), nn.BatchNorm1d(o)) for i, o, k, d in ((24, 512, 5, 1), (512, 512, 3, 2), (512, 512, 3, 3), (512, 512, 1, 1),
                                          (512, 1500, 1, 1))], nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(1500, 512)), (1, 24, 300))
    add('lstm_classifier_b32', lambda: nn.Sequential(Of(nn.LSTM(64, 128, 2, batch_first=True), 0), Call(lambda x: x[:, -1]), nn.Linear(128, 10)), (32, 100, 64))
    add('gru_b32', lambda: Of(nn.GRU(128, 256), 0), (50, 32, 128))
    add('lstm_small', lambda: Of(nn.LSTM(32, 64), 0), (100, 1, 32))
    add('bilstm_tagger', lambda: nn.Sequential(nn.Embedding(10000, 100), Of(nn.LSTM(100, 128, bidirectional=True, batch_first=True), 0), nn.Linear(256, 9)), ids(1, 40))


class Decoder(nn.Module):
    """One new word behind those that were seen: keys and values come in."""

    def __init__(self, c=512, heads=8, n=4, words=8000):
        super().__init__()
        self.words, self.heads, self.last = nn.Embedding(words, c), heads, nn.Linear(c, words, bias=False)
        part = lambda: nn.ModuleDict({'norm': nn.LayerNorm(c), 'qkv': nn.Linear(c, 3 * c), 'out': nn.Linear(c, c), 'wide': nn.Sequential(nn.LayerNorm(c), nn.Linear(c, 4 * c), nn.GELU(), nn.Linear(4 * c, c))})
        self.layers = nn.ModuleList([part() for _ in range(n)])

    def forward(self, word, seen):
        x, kept = self.words(word), []
        for k, layer in enumerate(self.layers):
            q, key, value = (y.view(1, 1, self.heads, -1).transpose(1, 2) for y in layer['qkv'](layer['norm'](x)).chunk(3, -1))
            keys, values = torch.cat([seen[k, 0], key], 2), torch.cat([seen[k, 1], value], 2)
            kept += [keys, values]
            z = (q @ keys.transpose(2, 3) / math.sqrt(q.shape[-1])).softmax(-1) @ values
            x = x + layer['out'](z.transpose(1, 2).reshape(1, 1, -1))
            x = x + layer['wide'](x)
        return (self.last(x), *kept)


class Llama(nn.Module):
    """Norms without a mean, turned queries and keys, gated layers."""

    def __init__(self, c=512, heads=8, n=2, words=8000, length=64):
        super().__init__()
        self.words, self.heads, self.last = nn.Embedding(words, c), heads, nn.Linear(c, words, bias=False)
        lin = lambda i, o: nn.Linear(i, o, bias=False)
        self.layers = nn.ModuleList([nn.ModuleDict({'q': lin(c, c), 'k': lin(c, c), 'v': lin(c, c), 'o': lin(c, c), 'gate': lin(c, 1376), 'up': lin(c, 1376), 'down': lin(1376, c)}) for _ in range(n)])
        self.scales = nn.ParameterList([nn.Parameter(torch.ones(c)) for _ in range(2 * n)])
        angle = torch.outer(torch.arange(length).float(), 1 / 10000 ** (torch.arange(0, c // heads, 2).float() / (c // heads)))
        self.register_buffer('cos', torch.cat([angle, angle], 1).cos())
        self.register_buffer('sin', torch.cat([angle, angle], 1).sin())
        self.register_buffer('mask', torch.full((length, length), -1e9).triu(1))

    def norm(self, x, k):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.scales[k]

    def turn(self, x):
        a, b = x.chunk(2, -1)
        return x * self.cos + torch.cat([-b, a], -1) * self.sin

    def forward(self, x):
        n, length = x.shape
        x = self.words(x)
        for k, layer in enumerate(self.layers):
            y = self.norm(x, 2 * k)
            q, key, v = (layer[m](y).view(n, length, self.heads, -1).transpose(1, 2) for m in 'qkv')
            z = (self.turn(q) @ self.turn(key).transpose(2, 3) / math.sqrt(q.shape[-1]) + self.mask).softmax(-1) @ v
            x = x + layer['o'](z.transpose(1, 2).reshape(n, length, -1))
            y = self.norm(x, 2 * k + 1)
            x = x + layer['down'](F.silu(layer['gate'](y)) * layer['up'](y))
        return self.last(x)


class Patches(nn.Module):
    """A small vision transformer."""

    def __init__(self, c=192, heads=3, n=12):
        super().__init__()
        self.cut, self.place = nn.Conv2d(3, c, 16, 16), nn.Parameter(torch.randn(1, 196, c))
        self.layers, self.norm, self.last = encoder(c, heads, n), nn.LayerNorm(c), nn.Linear(c, 1000)

    def forward(self, x):
        return self.last(self.norm(self.layers(self.cut(x).flatten(2).transpose(1, 2) + self.place)).mean(1))


class Bert(nn.Module):
    def __init__(self, c, heads, n, length):
        super().__init__()
        self.words, self.place = nn.Embedding(30000, c), nn.Parameter(torch.randn(length, c))
        self.norm, self.layers = nn.LayerNorm(c), encoder(c, heads, n)

    def forward(self, x):
        return self.layers(self.norm(self.words(x) + self.place))


class Attending(nn.Module):
    """Attention along the edges of a dense graph."""

    def __init__(self, i=128, c=64):
        super().__init__()
        self.a, self.left, self.right, self.last = nn.Linear(i, c), nn.Linear(c, 1), nn.Linear(c, 1), nn.Linear(c, 8)

    def forward(self, x, graph):
        h = self.a(x)
        e = F.leaky_relu(self.left(h) + self.right(h).transpose(0, 1), 0.2) + (graph - 1) * 1e9
        return torch.log_softmax(self.last(F.elu(e.softmax(1) @ h)), 1)


class Pairs(nn.Module):
    """Factorised features beside a deep network, as in DeepFM."""

    def __init__(self, fields=26, d=16):
        super().__init__()
        self.words, self.one = nn.Embedding(50000, d), nn.Embedding(50000, 1)
        self.deep = nn.Sequential(nn.Flatten(), nn.Linear(fields * d, 400), nn.ReLU(), nn.Linear(400, 400), nn.ReLU(), nn.Linear(400, 1))

    def forward(self, x):
        e = self.words(x)
        pairs = 0.5 * (e.sum(1).pow(2) - e.pow(2).sum(1)).sum(1, keepdim=True)
        return torch.sigmoid(self.one(x).sum(1) + pairs + self.deep(e))


def words():
    add('decode_step', Decoder, ids(1, 1), (4, 2, 1, 8, 128, 64))
    add('llama_like', Llama, ids(1, 64))
    add('deit_tiny', Patches, (1, 3, 224, 224))
    add('bert_mini', lambda: Bert(256, 4, 4, 64), ids(1, 64))
    add('bert_tiny_b8', lambda: Bert(128, 2, 2, 32), ids(8, 32))
    add('bert_6_384', lambda: Bert(384, 12, 6, 256), ids(1, 256))
    add('bert_base_16', lambda: Bert(768, 12, 4, 16), ids(1, 16))
    add('bert_base_b8', lambda: Bert(768, 12, 2, 32), ids(8, 32))
    add('gat', Attending, (512, 128), (512, 512))
    add('deepfm_b128', Pairs, ids(128, 26))
    add('nerf', lambda: nn.Sequential(nn.Linear(63, 256), nn.ReLU(), *[x for _ in range(6) for x in (nn.Linear(256, 256), nn.ReLU())], nn.Linear(256, 4)), (4096, 63))
    add('siren', lambda: nn.Sequential(*[x for i in (2, 256, 256) for x in (nn.Linear(i, 256), Call(lambda y: torch.sin(30 * y)))], nn.Linear(256, 3)), (4096, 2))
    add('tabular_b256', lambda: nn.Sequential(nn.BatchNorm1d(50), nn.Linear(50, 200), nn.ReLU(), nn.BatchNorm1d(200), nn.Linear(200, 100), nn.ReLU(), nn.BatchNorm1d(100), nn.Linear(100, 2)), (256, 50))
    add('mlp_wide', lambda: nn.Sequential(nn.Linear(1024, 4096), nn.ReLU(), nn.Linear(4096, 4096), nn.ReLU(), nn.Linear(4096, 1000), nn.Softmax(1)), (1, 1024))
    add('policy', lambda: nn.Sequential(nn.Conv2d(4, 32, 8, 4), nn.ReLU(), nn.Conv2d(32, 64, 4, 2), nn.ReLU(), nn.Conv2d(64, 64, 3), nn.ReLU(), nn.Flatten(), nn.Linear(3136, 512), nn.ReLU(), nn.Linear(512, 6)),
        (1, 4, 84, 84))
    add('board', lambda: nn.Sequential(conv(17, 64), *[residual(64, 64) for _ in range(6)], conv(64, 2, 1), nn.Flatten(), nn.Linear(722, 362)), (1, 17, 19, 19))


FAMILIES = (light, images, detectors, hearing, words)
