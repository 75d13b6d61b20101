#!/usr/bin/env python3
"""Compiled modules as a user ships them: the C program of docs/deploy.md runs them here and on the other architecture, and agrees with
the reference interpreter; bad modules are answered, never run."""
import array
import json
import os
import platform
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest

ISOMER = os.environ['ISOMER']
ROOT = os.environ['ISOMER_SOURCE_DIR']
X86 = platform.machine() == 'x86_64'
FOREIGN = {'target': 'aarch64' if X86 else 'x86-64-v3', 'triple': 'aarch64-linux-gnu' if X86 else 'x86_64-linux-gnu',
           'emulator': ['qemu-aarch64'] if X86 else ['qemu-x86_64', '-cpu', 'max']}


def command(*args, code=0, env=None):
    done = subprocess.run(args, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=300,
                          env={**os.environ, **(env or {})})
    if done.returncode != code:
        raise AssertionError('%s: exit code %d, expected %d\n%s%s' % (' '.join(args), done.returncode, code, done.stdout, done.stderr))
    return done


def isomer(*args, code=0, env=None):
    return command(ISOMER, *args, code=code, env=env)


def write_npy(path, values, shape):
    header = "{'descr': '<f4', 'fortran_order': False, 'shape': (%s), }" % ''.join('%d, ' % d for d in shape)
    header += ' ' * (-(len(header) + 11) % 64) + '\n'
    with open(path, 'wb') as f:
        f.write(b'\x93NUMPY\x01\x00' + struct.pack('<H', len(header)) + header.encode() + array.array('f', values).tobytes())


def read_npy(path):
    with open(path, 'rb') as f:
        data = f.read()
    values = array.array('f')
    values.frombytes(data[10 + struct.unpack('<H', data[8:10])[0]:])
    return values


SIZED = """graph @sized(%x: f32[n,4]) {
  %p = matmul(%x, const f32[4,3] [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12])
  return "y"=softmax(%p), "z"=reduce_sum(%p)
}
"""


# A loop that data ends, a branch that data chooses, a scan, sorting and scattering.
CONTROL = """graph @control(%x: f32[6,40]) {
  %h, %ys = scan(const f32[40] [0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5,
      0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5], %x){
    body=graph @step(%s: f32[40], %e: f32[40]) { %n = tanh(add(%s, %e)) return "n"=%n, "e"=mul(%n, %e) }, num_scan_inputs=1}
  %v, %i = top_k(%ys, const i64[1] [30])
  %u = scatter_elements(%ys, %i, %v){axis=1}
  %l = loop(_, _, %u){body=graph @grow(%i: i64[], %c: bool[], %v: f32[6,40]) {
    %d = add(%v, %v)
    %z = if(less(reduce_sum(%d){keepdims=0}, const f32[] 0), %d){captures=1, then_branch=graph @t(%a: f32[6,40]) { return "a"=neg(%a) },
      else_branch=graph @e(%a: f32[6,40]) { return "a"=mul(%a, const f32[] 1.5) }}
    %t = less(reduce_sum(%z){keepdims=0}, const f32[] 1000)
    return %t, "z"=%z }}
  return %l, %h
}
"""


# A detector's end: boxes that data chooses, and what is read of them.
DETECTOR = """graph @detector(%boxes: f32[1,12,4], %scores: f32[1,2,12]) {
  %n = non_max_suppression(%boxes, %scores, const i64[] 4, const f32[] 0.5, const f32[] 0.1)
  %box = gather(%n, const i64[] 2){axis=1}
  %b = gather(gather(%boxes, const i64[] 0), %box)
  return "chosen"=%b, "positions"=transpose(%n)
}
"""


class Deploy(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.holder = tempfile.TemporaryDirectory()
        cls.folder = cls.holder.name
        with open(os.path.join(ROOT, 'docs/deploy.md'), encoding='utf-8') as f:
            source = re.search(r'```c\n(.*?)```', f.read(), re.S).group(1)
        with open(cls.path('main.c'), 'w', encoding='utf-8') as f:
            f.write(source)
        with open(cls.path('control.iso'), 'w', encoding='utf-8') as f:
            f.write(CONTROL)

    @classmethod
    def tearDownClass(cls):
        cls.holder.cleanup()

    @classmethod
    def path(cls, name):
        return os.path.join(cls.folder, name)

    def build(self, compiler, name):
        if not shutil.which(compiler):
            self.fail(compiler + ' is missing: run scripts/bootstrap')
        runtime = os.path.join(ROOT, 'src/runtime')
        command(compiler, '-std=c99', '-Wall', '-Wextra', '-Wpedantic', '-Werror', '-O1', '-I' + runtime, self.path('main.c'),
                os.path.join(runtime, 'isomer_loader.c'), '-o', self.path(name), '-ldl', '-lpthread')
        return self.path(name)

    def module(self, model, *targets):
        path = self.path('%s_%s.so' % (os.path.basename(model).replace(':', '_').replace(',', '_').replace('=', '_'), '_'.join(targets)))
        if not os.path.exists(path):
            isomer('compile', model, '-o', path, '--target', ','.join(targets))
        return path

    def expect_reference(self, model, text):
        """The program's text against the interpreter on the same inputs."""
        name, dims = re.search(r'^input (\S+): type 1, dims ([\d ]+),', text, re.M).groups()
        shape = [int(d) for d in dims.split()]
        count = 1
        for d in shape:
            count *= d
        write_npy(self.path('in.npy'), ((i % 17) / 16 - 0.5 for i in range(count)), shape)
        isomer('run', model, '--reference', '--input', '%s=%s' % (name, self.path('in.npy')), '--output-dir', self.path('out'))
        output = re.search(r'^output (\S+): .*\n(.*)$', text, re.M)
        want = read_npy(self.path('out/%s.npy' % output.group(1)))
        scale = max(abs(v) for v in want)
        got = [float(v) for v in output.group(2).split()]
        self.assertEqual(len(got), min(8, len(want)))
        for g, w in zip(got, want):
            self.assertLessEqual(abs(g - w), 1e-4 * scale)

    def test_here(self):
        main = self.build('cc', 'main')
        for model in ('zoo:tiny', 'zoo:squeezenet1_1', self.path('control.iso')):
            module = self.module(model, 'host')
            self.expect_reference(model, command(main, module, '1').stdout)
            self.assertEqual(command(main, module, '1').stdout, command(main, module, '2').stdout)

    def test_on_the_other_architecture(self):
        if not shutil.which(FOREIGN['emulator'][0]):
            self.fail(FOREIGN['emulator'][0] + ' is missing: run scripts/bootstrap')
        main = self.build(FOREIGN['triple'] + '-gcc', 'foreign')
        for model in ('zoo:tiny', 'zoo:squeezenet1_1', self.path('control.iso')):
            module = self.module(model, FOREIGN['target'])
            run = command(*FOREIGN['emulator'], '-L', '/usr/' + FOREIGN['triple'], main, module, '2')
            self.expect_reference(model, run.stdout)

    def test_poison_changes_nothing(self):
        """Memory that is read before it is written, or after its last use, would show."""
        for model in ('zoo:tiny', 'zoo:squeezenet1_1', 'zoo:densenet121,image=64', 'zoo:bert_base,layers=1,sequence=8', self.path('control.iso')):
            module = self.module(model, 'host')
            plain = json.loads(isomer('run', module, '--json').stdout)['outputs']
            poisoned = json.loads(isomer('run', module, '--json', '--threads', '2', env={'ISOMER_POISON': '1'}).stdout)['outputs']
            self.assertEqual(plain, poisoned)

    def test_bench_runs_a_module(self):
        module = self.module('zoo:tiny', 'host')
        self.assertIn('not checked', isomer('bench', module, '--duration', '0').stdout)
        checked = json.loads(isomer('bench', module, '--duration', '0', '--against', 'zoo:tiny', '--profile', '--json').stdout)
        self.assertLess(checked['accuracy'][0]['error_of_largest'], 1e-4)
        self.assertEqual(len(checked['profile']), checked['steps'])
        isomer('bench', module, '--against', 'zoo:squeezenet1_1', '--duration', '0', code=2)

    def test_compare_takes_a_module(self):
        values = array.array('f', ((i % 17) / 16 - 0.5 for i in range(3 * 32 * 32)))
        write_npy(self.path('x.npy'), values, (1, 3, 32, 32))
        isomer('run', 'zoo:tiny', '--reference', '--input', 'input=' + self.path('x.npy'), '--output-dir', self.path('set'))
        for name, dims, data in (('input_0', (1, 3, 32, 32), values), ('output_0', (1, 10), read_npy(self.path('set/output.npy')))):
            with open(self.path('set/%s.pb' % name), 'wb') as f:  # TensorProto: dims, data_type, raw_data
                size = len(data) * 4
                f.write(bytes(b for d in dims for b in (8, d)) + b'\x10\x01\x4a' + bytes((size & 127 | 128, size >> 7 & 127 | 128, size >> 14)) + data.tobytes())
        module = self.module('zoo:tiny', 'host')
        self.assertTrue(json.loads(isomer('compare', module, '--data', self.path('set'), '--json').stdout)['equal'])
        isomer('compare', module, code=2)

    def test_both_architectures_from_here(self):
        for targets, machine in ((('x86-64-v4', 'x86-64-v3'), 62), (('aarch64',), 183)):
            module = self.module('zoo:tiny', *targets)
            with open(module, 'rb') as f:
                self.assertEqual(struct.unpack('<H', f.read(20)[18:])[0], machine)

    @unittest.skipUnless(X86 and shutil.which('qemu-x86_64'), 'needs an emulated x86-64')
    def test_variants_by_cpu(self):
        main = self.build('cc', 'main')
        emulated = ['qemu-x86_64', '-cpu', 'max', main]  # has AVX2, has no AVX-512
        text = command(*emulated, self.module('zoo:tiny', 'x86-64-v4', 'x86-64-v3'), '1').stdout
        self.assertIn('for x86-64-v3', text)
        self.expect_reference('zoo:tiny', text)
        refused = command(*emulated, self.module('zoo:tiny', 'x86-64-v4'), code=1).stderr
        self.assertRegex(refused, r'was built for x86-64-v4 and needs the CPU feature avx512\w+, which this machine does not have')

    def test_several_sizes_in_one_module(self):
        with open(self.path('sized.iso'), 'w', encoding='utf-8') as f:
            f.write(SIZED)
        open_sizes = isomer('compile', self.path('sized.iso'), '-o', self.path('sized.so'), code=2).stderr
        self.assertRegex(open_sizes, r'E-dynamic-dim.*--dim n=N')
        module = self.path('sized.so')
        report = json.loads(isomer('compile', self.path('sized.iso'), '--dim', 'n=1,3,8', '-o', module, '--json').stdout)
        self.assertEqual(len(report['variants']), 3)
        for n in (1, 3, 8):
            write_npy(self.path('x.npy'), [0.25 * i - 1 for i in range(n * 4)], (n, 4))
            args = ['--input', 'x=' + self.path('x.npy')]
            want = json.loads(isomer('run', self.path('sized.iso'), '--dim', 'n=%d' % n, *args, '--json').stdout)['outputs']
            for poison in ('0', '1'):
                got = json.loads(isomer('run', module, *args, '--json', env={'ISOMER_POISON': poison}).stdout)['outputs']
                self.assertEqual(got, want)
        write_npy(self.path('x.npy'), [0] * 8, (2, 4))
        self.assertIn('compiled at 3 sizes', isomer('run', module, '--input', 'x=' + self.path('x.npy'), code=2).stderr)
        isomer('compile', self.path('sized.iso'), '--dim', 'n=1,1', '-o', module, code=2)
        isomer('compile', self.path('sized.iso'), '--dim', 'n=' + ','.join(str(i) for i in range(1, 20)), '-o', module, code=2)

    def test_sizes_that_the_data_decides(self):
        model, module = self.path('detector.iso'), self.path('detector.so')
        with open(model, 'w', encoding='utf-8') as f:
            f.write(DETECTOR)
        isomer('compile', model, '-o', module)
        for seed in '1', '2', '3':
            runs = [isomer('run', what, '--seed', seed).stdout.splitlines()[1:] for what in (model, module)]
            self.assertEqual(runs[0], runs[1])
        text = command(self.build('cc', 'main_varying'), module).stdout
        self.assertRegex(text, r'output chosen: type 1, dims 8 4, 128 bytes\n  in this run \d+ elements')
        self.assertRegex(text, r'output positions: type 7, dims 3 8, 192 bytes\n  in this run \d+ elements')

    def test_same_bytes_twice(self):
        for name in ('a.so', 'b.so'):
            isomer('compile', 'zoo:tiny', '-o', self.path(name))
        with open(self.path('a.so'), 'rb') as a, open(self.path('b.so'), 'rb') as b:
            self.assertEqual(a.read(), b.read())

    def test_bad_modules(self):
        with open(self.module('zoo:tiny', 'host'), 'rb') as f:
            whole = f.read()
        cases = {'empty': b'', 'text': b'a text file\n' * 1000, 'longer': whole + b'\0'}
        for size in range(4096, len(whole), len(whole) // 12 // 4096 * 4096):
            cases['cut at %d' % size] = whole[:size]
        for at in range(17, len(whole), len(whole) // 12):
            cases['flipped at %d' % at] = whole[:at] + bytes([whole[at] ^ 16]) + whole[at + 1:]
        with open(self.module('zoo:tiny', FOREIGN['target']), 'rb') as f:
            cases['foreign'] = f.read()
        for name, data in cases.items():
            with self.subTest(name):
                with open(self.path('bad.so'), 'wb') as f:
                    f.write(data)
                self.assertRegex(isomer('run', self.path('bad.so'), code=2).stderr, r'error\[E-module\]: The .*\.\n$')
        for args in ([self.path('missing.so')], [self.module('zoo:tiny', 'host'), '--dim', 'n=1'],
                     [self.module('zoo:tiny', 'host'), '--input', 'nobody=x.npy']):
            isomer('run', *args, code=2)


if __name__ == '__main__':
    if 'modules=' not in command(ISOMER, '--version').stdout:
        sys.exit(77)
    unittest.main()
