"""The list that networks.py and further.py add their networks to, and the modules that both use."""
import torch
import torch.nn as nn

NETWORKS = {}


def add(name, make, *inputs):
    """What makes a network, and its inputs: shapes of floats, or tensors."""
    NETWORKS[name] = (make, [torch.zeros(i) if isinstance(i, tuple) else i for i in inputs])


def ids(*shape):
    return torch.zeros(shape, dtype=torch.int64)


class Of(nn.Module):
    """One result of a module that has several."""

    def __init__(self, module, which):
        super().__init__()
        self.module, self.which = module, which

    def forward(self, *x):
        return self.module(*x)[self.which]


class Residual(nn.Module):
    def __init__(self, *layers, scale=1.0):
        super().__init__()
        self.body, self.scale = nn.Sequential(*layers), scale

    def forward(self, x):
        return x + self.body(x) * self.scale
