#!/usr/bin/env python3
"""isomer optimize as a user calls it: a faster model that computes the same, the same bytes every time, traces, refusals."""
import json
import os
import subprocess
import sys
import tempfile
import unittest

ISOMER = os.environ['ISOMER']
# The analytic model alone and a number of steps: no clock decides about the result.
STEADY = ['--no-measure', '--store', '-', '--budget', '10m', '--steps', '40', '--threads', '1']
MODEL = 'zoo:squeezenet1_1,image=32'

if 'llvm' not in subprocess.run([ISOMER, '--version'], stdout=subprocess.PIPE, text=True).stdout:
    sys.exit(77)


def isomer(*args, code=0):
    done = subprocess.run([ISOMER, *args], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=300)
    if done.returncode != code:
        raise AssertionError('isomer %s: exit code %d, expected %d\n%s%s' % (' '.join(args), done.returncode, code, done.stdout, done.stderr))
    return done


class Optimize(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        os.environ['ISOMER_STORE'] = self.folder.name  # never the one of whoever runs the tests

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def bytes(self, name):
        with open(self.path(name), 'rb') as f:
            return f.read()

    def test_result_computes_the_same_and_can_be_replayed(self):
        done = isomer('optimize', MODEL, *STEADY, '-o', self.path('a.onnx'), '--trace', self.path('a.json'), '--json')
        answer = json.loads(done.stdout)
        self.assertLess(answer['accuracy'][0]['error_of_largest'], 1e-4)
        self.assertGreaterEqual(answer['before']['kernels'], 1)
        isomer('compare', MODEL, self.path('a.onnx'), '--rtol', '1e-3', '--atol', '1e-4')
        isomer('optimize', MODEL, '--replay', self.path('a.json'), '--threads', '1', '-o', self.path('b.onnx'))
        self.assertEqual(self.bytes('a.onnx'), self.bytes('b.onnx'))

    def test_what_is_not_taken_is_listed_with_its_reason(self):
        how = ['optimize', 'zoo:squeezenet1_1,image=32', '--no-measure', '--store', '-', '--budget', '10m', '--steps', '60', '--threads', '1']
        done = isomer(*how, '--trace', self.path('a.json'), '--json')
        considered = json.loads(done.stdout)['considered']
        self.assertTrue(considered)
        for rule in considered:
            self.assertTrue(1 <= len(rule['best']) <= 3, rule)
            for case in rule['best']:
                self.assertIn(case['why'], ['slower', 'same', 'small-gain', 'outdone', 'estimated-slower', 'not-among-the-best', 'no-time', 'no-price', 'not-confirmed',
                                            'timed-slower'])
        with open(self.path('a.json')) as f:
            self.assertEqual(json.load(f)['considered'], considered)
        text = isomer(*how).stdout
        self.assertIn('considered, not taken', text)
        self.assertIn(considered[0]['rule'], text)

    def test_no_budget_returns_the_input(self):
        answer = json.loads(isomer('optimize', 'zoo:tiny', '--budget', '0', '-o', self.path('t.onnx'), '--json').stdout)
        self.assertFalse(answer['changed'])
        self.assertIn('nothing was searched', answer['why_not'])
        isomer('compare', 'zoo:tiny', self.path('t.onnx'))

    def test_the_store_remembers_a_search_that_a_clock_ended(self):
        how = ['--no-measure', '--store', self.path('kernels.db'), '--budget', '1s', '--threads', '1', '--json']
        first = json.loads(isomer('optimize', MODEL, *how, '-o', self.path('a.onnx')).stdout)
        again = json.loads(isomer('optimize', MODEL, *how, '-o', self.path('b.onnx')).stdout)
        self.assertFalse(first['search']['remembered'])
        self.assertTrue(again['search']['remembered'])
        self.assertEqual(again['search']['priced'], 0)
        self.assertEqual(self.bytes('a.onnx'), self.bytes('b.onnx'))
        fresh = json.loads(isomer('optimize', MODEL, *how, '--fresh', '--steps', '1').stdout)
        self.assertFalse(fresh['search']['remembered'])

    def test_layouts_are_labels_of_the_model(self):
        answer = json.loads(isomer('optimize', MODEL, *STEADY, '--layout', '-o', self.path('a.onnx'), '--trace', self.path('a.json'), '--json').stdout)
        self.assertLess(answer['accuracy'][0]['error_of_largest'], 1e-4)
        isomer('compare', MODEL, self.path('a.onnx'), '--rtol', '1e-3', '--atol', '1e-4')
        isomer('optimize', MODEL, '--replay', self.path('a.json'), '--threads', '1', '-o', self.path('b.onnx'))
        self.assertEqual(self.bytes('a.onnx'), self.bytes('b.onnx'))

    def test_given_inputs_come_on_top_of_random_ones(self):
        given = json.loads(isomer('show', 'zoo:tiny', '--json').stdout)['inputs'][0]
        count = 1
        for size in given['type'].rstrip(']').split('[')[1].split(','):
            count *= int(size)
        with open(self.path('x.bin'), 'wb') as f:
            f.write(bytes(4 * count))
        how = ['--budget', '0', '--json', '--input', '%s=%s' % (given['name'], self.path('x.bin'))]
        self.assertEqual(json.loads(isomer('optimize', 'zoo:tiny', *how).stdout)['input_sets'], 2)
        self.assertEqual(json.loads(isomer('optimize', 'zoo:tiny', '--budget', '0', '--json').stdout)['input_sets'], 1)

    def test_who_only_asks_begins_no_store(self):
        where = os.path.join(self.folder.name, 'none', 'kernels.db')
        self.assertIn('not there yet', isomer('cost', 'show', '--store', where).stdout)
        isomer('cost', 'clear', '--store', where)
        isomer('cost', 'export', self.path('out.db'), '--store', where, code=2)
        self.assertFalse(os.path.exists(os.path.dirname(where)))

    def test_damaged_store_is_set_aside(self):
        with open(self.path('kernels.db'), 'wb') as f:
            f.write(b'not a store ' * 500)
        done = isomer('optimize', 'zoo:tiny', '--no-measure', '--steps', '2', '-o', self.path('t.onnx'))
        self.assertIn('damaged', done.stderr)
        self.assertTrue(any(name.startswith('kernels.db.aside') for name in os.listdir(self.folder.name)))

    def test_what_is_refused(self):
        isomer('optimize', 'zoo:tiny', '--budget', 'soon', code=2)
        isomer('optimize', 'zoo:tiny', '--strategy', 'magic', code=2)
        isomer('optimize', 'zoo:tiny', '--replay', self.path('nothing.json'), code=2)
        with open(self.path('other.json'), 'w') as f:
            json.dump({'format': 'isomer trace', 'version': 1, 'model': '', 'start': '', 'result': '',
                       'steps': [{'before': 1, 'after': 1, 'repeated': False,
                                  'applications': [{'rule': 'merge-convs', 'nodes': [1, 2], 'inputs': [], 'names': [], 'made': []}]}]}, f)
        self.assertIn('E-trace', isomer('optimize', 'zoo:tiny', '--replay', self.path('other.json'), code=2).stderr)
        with open(self.path('false.rules'), 'w') as f:
            f.write('rule planted : exact\n  ?x : T[M, K]  ?a, ?b : T[K, N]\n  matmul(?x, ?a) => matmul(?x, ?a)\n')
        isomer('optimize', 'zoo:tiny', '--rules', self.path('false.rules'), code=2)

    def test_what_cannot_be_written_is_not_searched_for(self):
        for option in ('-o', '--trace'):
            done = isomer('optimize', MODEL, '--budget', '10m', option, self.path('missing/a'), code=2)
            self.assertIn("cannot write '%s': No such file or directory" % self.path('missing/a'), done.stderr)
        self.assertEqual(os.listdir(self.folder.name), [])  # no kernel was timed

    def test_other_commands_take_it(self):
        isomer('run', 'zoo:tiny', '--optimize=0')
        isomer('compile', 'zoo:tiny', '--optimize=0', '-o', self.path('tiny.so'))


if __name__ == '__main__':
    unittest.main()
