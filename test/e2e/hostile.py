#!/usr/bin/env python3
"""Hostile files end in exit code 2 and one clear sentence: no crash, no hang, no large allocation.

Each case is (name, bytes or a function that writes files, expected exit codes, text that the message must hold).
"""
import os
import resource
import struct
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), 'support'))
from onnx_writer import *  # noqa: E402,F403

ISOMER = os.environ['ISOMER']
SECONDS = float(os.environ.get('ISOMER_HOSTILE_SECONDS', '20'))
MEGABYTES = int(os.environ.get('ISOMER_HOSTILE_MB', '700'))  # sanitizers need more
BIG = 1 << 62
X = ('x', [1, 3, 8, 8])


def identity_chain(n):
    nodes = [node('Relu', ['x' if i == 0 else 'v%d' % (i - 1)], ['v%d' % i], name='n%d' % i) for i in range(n)]
    return model(graph(nodes, [value('x', [2])], [value('v%d' % (n - 1), [2])]))


def nested_if(depth):
    body = graph([node('Constant', [], ['c'], value=('tensor', floats('', [1])))], [], [value('c', [1])])
    for _ in range(depth):
        body = graph([node('If', ['cond'], ['c'], then_branch=('graph', body), else_branch=('graph', body) if depth < 4 else ('graph', graph(
            [node('Constant', [], ['d'], value=('tensor', floats('', [1])))], [], [value('d', [1])])))], [], [value('c', [1])])
    return model(graph([node('If', ['cond'], ['y'], then_branch=('graph', body), else_branch=('graph', body))], [value('cond', [], BOOL)], [value('y', [1])]))


def function_bomb(levels):
    out = b''
    for i in range(levels):
        inner = 'f%d' % (i + 1) if i + 1 < levels else 'Relu'
        domain = 'local' if i + 1 < levels else ''
        calls = [node(inner, ['a'], ['b'], domain=domain, name='p'), node(inner, ['b'], ['c'], domain=domain, name='q')]
        f = field(1, 'f%d' % i) + field(4, 'a') + field(5, 'c') + b''.join(field(7, n) for n in calls)
        f += field(9, field(2, 17)) + field(9, field(1, 'local') + field(2, 1)) + field(10, 'local')
        out += field(25, f)
    g = graph([node('f0', ['x'], ['y'], domain='local')], [value('x', [2])], [value('y', [2])])
    return model(g, more=out, opsets=[('', 17), ('local', 1)])


def endless_loop(trips, condition=True):
    body = graph([node('Identity', ['cond_in'], ['cond_out']), node('Identity', ['v_in'], ['v_out'])],
                 [value('i', [], INT64), value('cond_in', [], BOOL), value('v_in', [1])], [value('cond_out', [], BOOL), value('v_out', [1])])
    inits = [ints('m', [trips], []), tensor('c', [], BOOL, b'\1' if condition else b'\0')]
    return model(graph([node('Loop', ['m' if trips >= 0 else '', 'c', 'x'], ['y'], body=('graph', body))], [value('x', [1])], [value('y', [1])], inits))


def external(entries, make=None):
    def write(folder):
        path = os.path.join(folder, 'm.onnx')
        with open(path, 'wb') as f:
            f.write(model(graph([node('Add', ['x', 'w'], ['y'])], [value('x', [4])], [value('y', [4])], [tensor('w', [4], FLOAT, external=entries)])))
        if make:
            make(folder)
        return path
    return write


def data(name, n=16):
    def make(folder):
        with open(os.path.join(folder, name), 'wb') as f:
            f.write(b'\0' * n)
    return make


def link(name, target):
    return lambda folder: os.symlink(target, os.path.join(folder, name))


def special(make):
    def write(folder):
        path = os.path.join(folder, 'm.onnx')
        make(path)
        return path
    return write


GOOD = one('Relu', [('x', [2])])
W = floats('w', [4, 3, 3, 3])
CASES = [
    # The container.
    ('empty', b'', 2, 'empty'), ('random', bytes((i * 7919 + 13) % 251 for i in range(5000)), 2, ''), ('truncated', GOOD[:-7], 2, ''),
    ('html', b'<!DOCTYPE html><html><body>404</body></html>', 2, 'HTML'),
    ('lfs pointer', b'version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n', 2, 'git-lfs'),
    ('text', b'hello world, this is no model\n', 2, ''), ('no graph', model(None), 2, 'graph'),
    ('opset 9999', one('Relu', [('x', [2])], opset=9999), 2, '9999'), ('opset -1', one('Relu', [('x', [2])], opset=-1), 2, ''),
    ('no opset', model(graph([node('Relu', ['x'], ['y'])], [value('x', [2])], [value('y', [2])]), opsets=[]), 2, 'opset'),
    ('future IR', model(graph([node('Relu', ['x'], ['y'])], [value('x', [2])], [value('y', [2])]), ir=99), 0, ''),
    ('bad UTF-8 operator', one('Re\udcfflu', [('x', [2])]), 1, ''),
    ('directory', special(os.mkdir), 2, ''), ('FIFO', special(os.mkfifo), 2, ''),
    ('device', lambda folder: '/dev/zero', 2, ''), ('missing', lambda folder: os.path.join(folder, 'none.onnx'), 2, 'none.onnx'),
    ('deep If', nested_if(90), 2, ''), ('chain of 200000', identity_chain(200000), 0, ''),
    ('function bomb', function_bomb(60), 2, ''),
    # The graph.
    ('cycle', model(graph([node('Relu', ['b'], ['a'], 'first'), node('Relu', ['a'], ['b'], 'second')], [], [value('b', [2])])), 2, ''),
    ('unsorted', model(graph([node('Relu', ['a'], ['b'], 'p'), node('Relu', ['x'], ['a'], 'q')], [value('x', [2])], [value('b', [2])])), 0, ''),
    ('undefined input', one('Add', [('x', [2]), 'nowhere']), 2, 'nowhere'),
    ('two producers', model(graph([node('Relu', ['x'], ['y'], 'p'), node('Neg', ['x'], ['y'], 'q')], [value('x', [2])], [value('y', [2])])), 2, "'y'"),
    ('missing output', model(graph([node('Relu', ['x'], ['a'])], [value('x', [2])], [value('y', [2])])), 2, "'y'"),
    ('two inputs of a name', model(graph([node('Relu', ['x'], ['y'])], [value('x', [2]), value('x', [3])], [value('y', [2])])), 2, "'x'"),
    ('odd names', model(graph([node('Relu', ['x"\n</script>*/'], ["y'\\"], "n\"\n'")], [value('x"\n</script>*/', [2])], [value("y'\\", [2])])), 0, ''),
    ('name of 10 MB', model(graph([node('Relu', ['x' * 10_000_000], ['y'])], [value('x', [2])], [value('y', [2])])), 2, ''),
    ('shape lie', model(graph([node('Relu', ['x'], ['y'])], [value('x', [2])], [value('y', [3])])), 2, "'y'"),
    ('type lie', model(graph([node('Relu', ['x'], ['y'])], [value('x', [2])], [value('y', [2], INT64)])), 2, "'y'"),
    # Tensors.
    ('raw data too short', one('Add', [('x', [4]), 'w'], [tensor('w', [4], FLOAT, b'\0' * 12)]), 2, "'w'"),
    ('raw data too long', one('Add', [('x', [2]), 'w'], [tensor('w', [2], FLOAT, b'\0' * 4096)]), 2, "'w'"),
    ('typed data too short', one('Add', [('x', [4]), 'w'], [tensor('w', [4], floats=[1.0])]), 2, "'w'"),
    ('unknown element type', one('Add', [('x', [4]), 'w'], [tensor('w', [4], 99, b'\0' * 16)]), 2, ''),
    ('negative dimension', one('Add', [('x', [4]), 'w'], [tensor('w', [-4], FLOAT, b'\0' * 16)]), 2, "'w'"),
    ('overflowing dimensions', one('Add', [('x', [4]), 'w'], [tensor('w', [1 << 32, 1 << 32, 2], FLOAT, b'\0' * 16)]), 2, "'w'"),
    ('raw and typed data', one('Add', [('x', [4]), 'w'], [tensor('w', [4], FLOAT, b'\0' * 16, floats=[1.0] * 4)]), 2, "'w'"),
    ('overflowing input', one('Relu', [('x', [1 << 40, 1 << 40])]), 2, "'x'"),
    # External data.
    ('external ..', external({'location': '../secret.bin'}), 2, ''), ('external absolute', external({'location': '/etc/passwd'}), 2, ''),
    ('external missing', external({'location': 'none.bin'}), 2, 'none.bin'),
    ('external symlink', external({'location': 'l.bin'}, link('l.bin', '/etc/passwd')), 2, ''),
    ('external folder symlink', external({'location': 'd/passwd'}, link('d', '/etc')), 2, ''),
    ('external device', external({'location': 'z.bin'}, link('z.bin', '/dev/zero')), 2, ''),
    ('external FIFO', external({'location': 'f.bin'}, lambda d: os.mkfifo(os.path.join(d, 'f.bin'))), 2, ''),
    ('external past the end', external({'location': 'w.bin', 'offset': '8', 'length': '16'}, data('w.bin')), 2, ''),
    ('external negative offset', external({'location': 'w.bin', 'offset': '-4'}, data('w.bin', 64)), 2, ''),
    ('external offset no number', external({'location': 'w.bin', 'offset': 'nan'}, data('w.bin', 64)), 2, ''),
    ('external huge length', external({'location': 'w.bin', 'length': str(BIG)}, data('w.bin', 64)), 2, ''),
    ('external wrong length', external({'location': 'w.bin', 'length': '12'}, data('w.bin', 64)), 2, ''),
    ('external good', external({'location': 'w.bin', 'offset': '0', 'length': '16'}, data('w.bin')), 0, ''),
    # Allocation bombs.
    ('ConstantOfShape bomb', one('ConstantOfShape', ['s'], [ints('s', [1 << 40])]), 2, ''),
    ('Expand bomb', one('Expand', [('x', [1]), 's'], [ints('s', [1 << 20, 1 << 20])]), 2, ''),
    ('Tile bomb', one('Tile', [('x', [2]), 'r'], [ints('r', [1 << 40])]), 2, ''),
    ('Range bomb', one('Range', ['a', 'b', 'd'], [ints('a', [0], []), ints('b', [BIG], []), ints('d', [1], [])], out_type=INT64), 2, ''),
    ('Range step 0', one('Range', ['a', 'b', 'd'], [ints('a', [0], []), ints('b', [4], []), ints('d', [0], [])], out_type=INT64), 2, ''),
    ('Pad bomb', one('Pad', [('x', [1]), 'p'], [ints('p', [1 << 40, 0])]), 2, ''),
    ('Resize bomb', one('Resize', [('x', [1, 1, 2, 2]), '', 's'], [floats('s', [4], [1, 1, 1e6, 1e6])]), 2, ''),
    # Operators.
    ('Conv kernel of rank 4 on rank 2', one('Conv', [('x', [2, 3]), 'w'], [W]), 2, 'Conv_0'),
    ('Conv stride 0', one('Conv', [X, 'w'], [W], strides=[0, 0]), 2, 'Conv_0'),
    ('Conv negative pads', one('Conv', [X, 'w'], [W], pads=[-9, -9, -9, -9]), 2, 'Conv_0'),
    ('Conv group 0', one('Conv', [X, 'w'], [W], group=0), 2, 'Conv_0'), ('Conv group 7', one('Conv', [X, 'w'], [W], group=7), 2, 'Conv_0'),
    ('Conv dilation 2^62', one('Conv', [X, 'w'], [W], dilations=[BIG, BIG]), 2, 'Conv_0'),
    ('Conv pads 2^62', one('Conv', [X, 'w'], [W], pads=[BIG] * 4), 2, 'Conv_0'),
    ('MaxPool larger than input', one('MaxPool', [X], kernel_shape=[99, 99]), 2, 'MaxPool_0'),
    ('MaxPool kernel 0', one('MaxPool', [X], kernel_shape=[0, 0]), 2, 'MaxPool_0'),
    ('MatMul mismatch', one('MatMul', [('a', [2, 3]), ('b', [4, 5])]), 2, 'MatMul_0'),
    ('Reshape two -1', one('Reshape', [('x', [4]), 's'], [ints('s', [-1, -1])]), 2, 'Reshape_0'),
    ('Reshape wrong count', one('Reshape', [('x', [4]), 's'], [ints('s', [3])]), 2, 'Reshape_0'),
    ('Reshape -2', one('Reshape', [('x', [4]), 's'], [ints('s', [-2, 2])]), 2, 'Reshape_0'),
    ('Transpose twice the same', one('Transpose', [('x', [2, 3])], perm=[0, 0]), 2, 'Transpose_0'),
    ('Transpose out of range', one('Transpose', [('x', [2, 3])], perm=[0, 9]), 2, 'Transpose_0'),
    ('Gather out of range', one('Gather', [('x', [4]), 'i'], [ints('i', [9])]), 2, 'Gather_0'),
    ('Gather below range', one('Gather', [('x', [4]), 'i'], [ints('i', [-5])]), 2, 'Gather_0'),
    ('Softmax axis 17', one('Softmax', [('x', [2, 3])], axis=17), 2, 'Softmax_0'), ('Concat of nothing', one('Concat', [], axis=0), 2, 'Concat_0'),
    ('Split sum', one('Split', [('x', [5]), 's'], [ints('s', [1, 1])], outputs=('y', 'z')), 2, 'Split_0'),
    ('Slice step 0', one('Slice', [('x', [5]), 'a', 'b', 'c', 'd'], [ints('a', [0]), ints('b', [5]), ints('c', [0]), ints('d', [0])]), 2, 'Slice_0'),
    ('missing attribute', one('Concat', [('x', [2]), ('z', [2])]), 2, 'Concat_0'), ('wrong attribute kind', one('Softmax', [('x', [2, 3])], axis='one'), 2, 'Softmax_0'),
    ('unknown attribute', one('Relu', [('x', [2])], nonsense=1), 2, 'nonsense'), ('Einsum nonsense', one('Einsum', [('x', [2])], equation='i,j->'), 2, 'Einsum_0'),
    ('Pad below zero', one('Pad', [('x', [2]), 'p'], [ints('p', [-5, -5])]), 2, 'Pad_0'),
    ('DepthToSpace 0', one('DepthToSpace', [('x', [1, 4, 2, 2])], blocksize=0), 2, 'DepthToSpace_0'),
    ('BatchNormalization sizes', one('BatchNormalization', [X, 's', 's', 's', 's'], [floats('s', [5])]), 2, 'BatchNormalization_0'),
    ('TopK -5', one('TopK', [('x', [4]), 'k'], [ints('k', [-5])], outputs=('y', 'i')), 2, 'TopK_0'),
    ('too many inputs', one('Relu', [('x', [2]), ('z', [2])]), 2, 'Relu_0'), ('too few inputs', one('Add', [('x', [2])]), 2, 'Add_0'),
    ('too many outputs', one('Relu', [('x', [2])], outputs=('y', 'z')), 2, 'Relu_0'),
    ('integer division by zero', one('Div', [('x', [2], INT64), 'w'], [ints('w', [0, 0])], out_type=INT64), 2, 'Div_0'),
    ('INT64_MIN / -1', one('Div', ['v', 'w'], [ints('v', [-(1 << 63)]), ints('w', [-1])], out_type=INT64), 0, ''),
    # Running.
    ('Loop of 2^62', endless_loop(BIG), 2, ''), ('Loop without end', endless_loop(-1), 2, ''), ('zero-size', one('Relu', [('x', [0, 3])]), 0, ''),
    ('scalar', one('Relu', [('x', [])]), 0, ''), ('unknown operator', one('Frobnicate', [('x', [2])]), 2, 'Frobnicate'),
    ('unknown operator without results', model(graph([node('Frobnicate', ['x'], []), node('Relu', ['x'], ['y'])], [value('x', [2])], [value('y', [2])])), 0, 'Frobnicate'),
    ('unknown domain', model(graph([node('Foo', ['x'], ['y'], domain='nobody.example')], [value('x', [2])], [value('y', [2])]), opsets=[('', 17), ('nobody.example', 1)]), 2, 'Foo'),
]


# A busy machine is no hang: what counts is the time that the program had a core for; the clock only ends what waits for nothing.
def limits():
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CPU, (int(SECONDS), int(SECONDS)))


def attempt(path):
    start = time.monotonic()
    try:
        done = subprocess.run([ISOMER, 'run', path], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=10 * SECONDS, preexec_fn=limits)
        code, text = done.returncode, (done.stderr + done.stdout).decode('utf-8', 'replace')
    except subprocess.TimeoutExpired:
        code, text = 'time-out', ''
    return code, text, time.monotonic() - start


def main():
    wanted = sys.argv[1] if len(sys.argv) > 1 else ''
    failed = []
    before = 0
    for name, content, expected, needle in CASES:
        if wanted not in name:
            continue
        with tempfile.TemporaryDirectory() as folder:
            if callable(content):
                path = content(folder)
            else:
                path = os.path.join(folder, 'm.onnx')
                with open(path, 'wb') as f:
                    f.write(content)
            code, text, seconds = attempt(path)
        peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
        problem = ''
        allowed = (1, 2) if expected == 1 else (expected,)
        if code not in allowed:
            problem = 'exit code %s, expected %s: %s' % (code, expected, text.strip()[:300])
        elif needle and needle not in text:
            problem = 'message lacks %r: %s' % (needle, text.strip()[:300])
        elif len(text) > 20000:
            problem = 'message of %d characters' % len(text)
        elif peak > before and peak > MEGABYTES * 1024:
            problem = 'took %d MB' % (peak // 1024)
        before = max(before, peak)
        if problem:
            failed.append(name)
            print('FAIL %-32s %6.2f s  %s' % (name, seconds, problem))
        elif wanted:
            print('ok   %-32s %6.2f s  %s' % (name, seconds, text.strip()[:200]))
    print('%d passed, %d failed' % (len(CASES) - len(failed), len(failed)))
    return 1 if failed else 0


if __name__ == '__main__':
    sys.exit(main())
