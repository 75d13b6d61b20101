"""Writes ONNX files byte by byte, valid or not: what a library would refuse to write is what the tests need."""
import struct


def varint(n):
    n &= (1 << 64) - 1
    out = bytearray()
    while n >= 128:
        out.append(n & 127 | 128)
        n >>= 7
    out.append(n)
    return bytes(out)


def field(number, value):
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    if isinstance(value, float):
        return varint(number << 3 | 5) + struct.pack('<f', value)
    if isinstance(value, str):
        value = value.encode('utf-8', 'surrogateescape')
    return varint(number << 3 | 2) + varint(len(value)) + value


def message(*fields):
    return b''.join(field(n, v) for n, v in fields)


FLOAT, UINT8, INT8, INT32, INT64, STRING, BOOL = 1, 2, 3, 6, 7, 8, 9


def tensor(name, dims, dtype=FLOAT, raw=None, **more):
    out = b''.join(field(1, d) for d in dims) + field(2, dtype)
    for v in more.get('floats', []):
        out += field(4, float(v))
    for v in more.get('int64s', []):
        out += field(7, v)
    if raw is not None:
        out += field(9, raw)
    for key, value in more.get('external', {}).items():
        out += field(13, message((1, key), (2, value)))
    if 'external' in more:
        out += field(14, 1)
    return out + field(8, name)


def floats(name, dims, values=None):
    n = 1
    for d in dims:
        n *= d
    values = values if values is not None else [1.0] * n
    return tensor(name, dims, FLOAT, struct.pack('<%df' % len(values), *values))


def ints(name, values, dims=None):
    return tensor(name, [len(values)] if dims is None else dims, INT64, struct.pack('<%dq' % len(values), *values))


def value(name, dims=None, dtype=FLOAT):
    t = field(1, dtype)
    if dims is not None:
        t += field(2, b''.join(field(1, field(2, d) if isinstance(d, str) else field(1, d)) for d in dims))
    return message((1, name), (2, message((1, t))))


def attr(name, v):
    if isinstance(v, tuple):  # (kind, bytes): a graph or a tensor
        kind, data = v
        return message((1, name), ({'graph': 6, 'tensor': 5}[kind], data), (20, {'graph': 5, 'tensor': 4}[kind]))
    if isinstance(v, int):
        return message((1, name), (3, v), (20, 2))
    if isinstance(v, float):
        return message((1, name), (2, v), (20, 1))
    if isinstance(v, str):
        return message((1, name), (4, v), (20, 3))
    number, kind = (7, 6) if v and isinstance(v[0], float) else (9, 8) if v and isinstance(v[0], str) else (8, 7)
    return message((1, name), *[(number, i) for i in v], (20, kind))


def node(op, inputs, outputs, name='', domain='', **attrs):
    out = b''.join(field(1, i) for i in inputs) + b''.join(field(2, o) for o in outputs)
    out += field(3, name or op + '_0') + field(4, op)
    out += b''.join(field(5, attr(k, v)) for k, v in attrs.items())
    return out + (field(7, domain) if domain else b'')


def graph(nodes, inputs=(), outputs=(), initialisers=(), name='g'):
    out = b''.join(field(1, n) for n in nodes) + field(2, name)
    out += b''.join(field(5, i) for i in initialisers) + b''.join(field(11, i) for i in inputs)
    return out + b''.join(field(12, o) for o in outputs)


def model(g, opset=17, ir=8, more=b'', opsets=None):
    out = field(1, ir) + (field(7, g) if g is not None else b'')
    for domain, version in (opsets if opsets is not None else [('', opset)]):
        out += field(8, (field(1, domain) if domain else b'') + field(2, version))
    return out + more


def one(op, inputs, initialisers=(), opset=17, outputs=('y',), out_type=FLOAT, **attrs):
    """A model of one node. `inputs`: (name, dims) or (name, dims, dtype) for graph inputs, a name for an initialiser."""
    names = [i if isinstance(i, str) else i[0] for i in inputs]
    given = [value(*i) for i in inputs if not isinstance(i, str)]
    return model(graph([node(op, names, list(outputs), **attrs)], given, [value(o, None, out_type) for o in outputs], initialisers), opset)
