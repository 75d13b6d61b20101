"""The notation of operator cases, and how one is written as a model with its inputs.

A case is a call: case('pad_wrap', 'Pad', [x(2, 3), c([1, 0, 1, 0])], opset=19, mode='wrap').
"""
import os
import random
import struct
import sys
import zlib

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'test', 'e2e', 'support'))
import onnx_writer as w  # noqa: E402

F32, U8, I8, U16, I16, I32, I64, BOOL, F16, F64 = 1, 2, 3, 4, 5, 6, 7, 9, 10, 11
LETTER = {F32: 'f', U8: 'B', I8: 'b', U16: 'H', I16: 'h', I32: 'i', I64: 'q', BOOL: '?', F16: 'e', F64: 'd'}
NEWEST = 23
CASES = {}
MS, ML = 'com.microsoft', 'ai.onnx.ml'


class Arg:
    def __init__(self, dims, dtype, lo, hi, values, constant):
        self.dims, self.dtype, self.lo, self.hi, self.values, self.constant = dims, dtype, lo, hi, values, constant

    def proto(self, name, rng):
        n = 1
        for d in self.dims:
            n *= d
        whole = self.dtype not in (F32, F16, F64)
        draw = (lambda: rng.randrange(self.lo, self.hi)) if whole else (lambda: rng.uniform(self.lo, self.hi))
        values = self.values if self.values is not None else [draw() for _ in range(n)]
        return w.tensor(name, self.dims, self.dtype, struct.pack('<%d%s' % (n, LETTER[self.dtype]), *values))


def x(*dims, t=F32, lo=None, hi=None):
    """A random input: reals in [-1, 1), bytes over their whole range, other integers in [0, 4)."""
    ranges = {F32: (-1, 1), F16: (-1, 1), F64: (-1, 1), U8: (0, 256), I8: (-128, 128), BOOL: (0, 2)}
    standard = ranges.get(t, (0, 4))
    return Arg(list(dims), t, standard[0] if lo is None else lo, standard[1] if hi is None else hi, None, False)


def c(values, t=I64, dims=None):
    """A constant: a list is a vector unless dims says more, a number a scalar."""
    if not isinstance(values, list):
        return Arg([], t, 0, 0, [values], True)
    return Arg(dims if dims is not None else [len(values)], t, 0, 0, values, True)


def given(values, t=F32, dims=None):
    """An input with chosen values."""
    a = c(values, t, dims)
    a.constant = False
    return a


def case(name, op, args, opset=NEWEST, domain='', out=None, tensors=None, more=None, **attrs):
    """`out`: the element type of each output (one of the first input's type when absent), None for one not wanted. `more`: attributes
    whose names mean something here."""
    assert name not in CASES, name
    out = out if isinstance(out, list) else [out if out is not None else args[0].dtype]
    CASES[name] = (op, args, opset, domain, out, {**attrs, **(more or {})}, tensors or {})


def ms(name, op, args, **more):
    case('ms_' + name, op, args, domain=MS, opset=more.pop('opset', 17), **more)


def ml(name, op, args, **more):
    case('ml_' + name, op, args, domain=ML, opset=more.pop('opset', 3), **more)


def write(folder, name):
    op, args, opset, domain, out, attrs, tensors = CASES[name]
    rng = random.Random(zlib.crc32(name.encode()))
    names, constants, inputs = [], [], []
    target = os.path.join(folder, name)
    os.makedirs(target, exist_ok=True)
    for i, a in enumerate(args):
        names.append('' if a is None else 'i%d' % i)
        if a is None:
            continue
        proto = a.proto(names[-1], rng)
        if a.constant:
            constants.append(proto)
            continue
        with open(os.path.join(target, 'input_%d.pb' % len(inputs)), 'wb') as f:
            f.write(proto)
        inputs.append(w.value(names[-1], a.dims, a.dtype))
    results = ['' if t is None else 'o%d' % i for i, t in enumerate(out)]
    for key, a in tensors.items():
        attrs = {**attrs, key: ('tensor', a.proto('', rng))}
    node = w.node(op, names, results, domain=domain, **attrs)
    outputs = [w.value(r, None, t) for r, t in zip(results, out) if r]
    opsets = [('', opset)] if not domain else [('', 17), (domain, opset if domain == ML else 1)]
    with open(os.path.join(target, 'model.onnx'), 'wb') as f:
        f.write(w.model(w.graph([node], inputs, outputs, constants), opsets=opsets, ir=10))
