#!/usr/bin/env python3
"""The tool as a user calls it: exit codes, text, JSON, files."""
import json
import os
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), 'support'))
import onnx_writer as w  # noqa: E402

ISOMER = os.environ['ISOMER']


def isomer(*args, code=0):
    done = subprocess.run([ISOMER, *args], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=120)
    if done.returncode != code:
        raise AssertionError('isomer %s: exit code %d, expected %d\n%s%s' % (' '.join(args), done.returncode, code, done.stdout, done.stderr))
    return done


class Commands(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def test_help_and_version(self):
        self.assertIn('features', isomer('--version').stdout)
        text = isomer('--help').stdout
        for name in ('run', 'bench', 'show', 'convert', 'compare', 'check', 'zoo', 'ops', 'passes', 'completion'):
            self.assertIn(name, text)
            self.assertIn('Examples', isomer(name, '--help').stdout)

    def test_wrong_usage_is_exit_code_2(self):
        for args in ([], ['frobnicate'], ['run'], ['show', 'zoo:nobody'], ['run', 'zoo:tiny', '--shape', 'nonsense'], ['run', 'zoo:tiny', '--dim', 'x'],
                     ['run', 'zoo:tiny', '--input', 'nobody=x.npy'], ['convert', 'zoo:tiny', self.path('x.txt')], ['compare', 'zoo:tiny', 'zoo:tiny', '--data', 'x'], ['zoo', 'tiny'],
                     ['run', self.path('missing.onnx')], ['run', 'zoo:tiny', '--seed', 'x'], ['zoo', 'tiny', '--batch', '-1', '-o', self.path('t.onnx')]):
            isomer(*args, code=2)

    def test_round_trip_between_formats(self):
        isomer('zoo', 'tiny', '-o', self.path('a.onnx'))
        isomer('convert', self.path('a.onnx'), self.path('b.iso'))
        isomer('convert', self.path('b.iso'), self.path('c.onnx'))
        isomer('compare', self.path('a.onnx'), self.path('c.onnx'), '--rtol', '0', '--atol', '0')
        hashes = {json.loads(isomer('show', m, '--json').stdout)['content_hash'] for m in (self.path('a.onnx'), self.path('b.iso'), self.path('c.onnx'))}
        self.assertEqual(len(hashes), 1)

    def test_same_bytes_twice(self):
        for name in ('one.onnx', 'two.onnx'):
            isomer('zoo', 'tiny', '-o', self.path(name))
        with open(self.path('one.onnx'), 'rb') as a, open(self.path('two.onnx'), 'rb') as b:
            self.assertEqual(a.read(), b.read())
        first, second = (json.loads(isomer('run', 'zoo:tiny', '--json', '--seed', '5', '--threads', t).stdout) for t in ('1', '2'))
        self.assertEqual(first['outputs'], second['outputs'])

    def test_run_writes_outputs_that_run_reads(self):
        isomer('run', 'zoo:tiny', '--output-dir', self.path('out'))
        self.assertTrue(os.path.exists(self.path('out/output.npy')))

    def test_compiled_code_agrees_with_the_reference(self):
        self.assertTrue(json.loads(isomer('compare', 'zoo:tiny', '--json').stdout)['equal'])
        self.assertTrue(json.loads(isomer('compare', 'zoo:tiny', '--reference', '--json').stdout)['equal'])
        self.assertTrue(json.loads(isomer('compare', 'zoo:tiny', '--accuracy', 'strict', '--json').stdout)['equal'])
        isomer('run', 'zoo:tiny', '--accuracy', 'sloppy', code=2)
        self.assertEqual(json.loads(isomer('run', 'zoo:tiny', '--json').stdout)['executor'], 'compiled')
        self.assertEqual(json.loads(isomer('run', 'zoo:tiny', '--reference', '--json').stdout)['executor'], 'reference')

    def test_bench_has_its_error_beside_its_speed(self):
        result = json.loads(isomer('bench', 'zoo:tiny', '--duration', '0.1', '--threads', '1', '--profile', '--json').stdout)
        self.assertGreater(result['latency']['median'], 0)
        self.assertLess(result['accuracy'][0]['error_of_largest'], 1e-4)
        self.assertEqual(len(result['profile']), result['steps'])
        self.assertEqual(result['reference_nodes'], [])

    def test_compare_says_no(self):
        isomer('zoo', 'tiny', '-o', self.path('a.onnx'))
        isomer('zoo', 'tiny', '--seed', '2', '-o', self.path('b.onnx'))
        done = isomer('compare', self.path('a.onnx'), self.path('b.onnx'), '--json', code=1)
        self.assertFalse(json.loads(done.stdout)['equal'])

    def test_unsupported_nodes_are_all_named_and_kept(self):
        nodes = [w.node('Frobnicate', ['x'], ['a'], 'first', domain='nobody', level=3), w.node('Relu', ['a'], ['b']), w.node('Grumble', ['b'], ['y'], 'second', domain='nobody')]
        with open(self.path('m.onnx'), 'wb') as f:
            f.write(w.model(w.graph(nodes, [w.value('x', [2])], [w.value('y', [2])]), opsets=[('', 17), ('nobody', 1)]))
        for command in ('check', 'show'):
            text = isomer(command, self.path('m.onnx'), code=1 if command == 'check' else 0).stdout
            for word in ('Frobnicate', 'Grumble', 'first', 'second'):
                self.assertIn(word, text)
        self.assertIn('Frobnicate', isomer('run', self.path('m.onnx'), code=2).stderr)
        isomer('convert', self.path('m.onnx'), self.path('n.onnx'))
        with open(self.path('n.onnx'), 'rb') as f:
            content = f.read()
        for word in (b'Frobnicate', b'Grumble', b'level', b'nobody'):
            self.assertIn(word, content)

    def test_dynamic_dimensions(self):
        with open(self.path('m.onnx'), 'wb') as f:
            f.write(w.model(w.graph([w.node('Relu', ['x'], ['y'])], [w.value('x', ['N', 2])], [w.value('y', ['N', 2])])))
        self.assertIn("'N'", isomer('run', self.path('m.onnx'), code=2).stderr)
        self.assertIn('f32[3,2]', isomer('run', self.path('m.onnx'), '--dim', 'N=3').stdout)
        self.assertIn('f32[4,2]', isomer('run', self.path('m.onnx'), '--shape', 'x:4x2').stdout)
        isomer('run', self.path('m.onnx'), '--shape', 'x:4x3', code=2)
        isomer('run', self.path('m.onnx'), '--dim', 'M=3', code=2)

    def test_json_everywhere(self):
        isomer('zoo', 'tiny', '-o', self.path('a.onnx'))
        for args in (['show', 'zoo:tiny'], ['run', 'zoo:tiny'], ['check', 'zoo:tiny'], ['ops'], ['ops', 'add'], ['zoo', '--list'],
                     ['compare', self.path('a.onnx'), 'zoo:tiny'], ['convert', 'zoo:tiny', self.path('b.onnx')], ['completion', 'bash']):
            json.loads(isomer(*args, '--json').stdout)
        error = json.loads(isomer('show', 'zoo:nobody', '--json', code=2).stdout)
        self.assertEqual(error['error']['code'], 'E-zoo-name')

    def test_generated_rules_that_nobody_proved_are_not_called_proved(self):
        args = ['rules', 'generate', '--set', 'taso', '--family', 'matrix', '--size', '2', '--no-verify']
        self.assertIn('none of them checked by the prover', isomer(*args, '-o', self.path('g.rules')).stdout)
        self.assertFalse(json.loads(isomer(*args, '-o', self.path('h.rules'), '--json').stdout)['verified'])
        with open(self.path('g.rules')) as g, open(self.path('h.rules')) as h:
            self.assertEqual(g.read(), h.read())

    def test_run_answers_in_json_whatever_runs_it(self):
        for flags in ([], ['--reference'], ['--wide']):
            answer = json.loads(isomer('run', 'zoo:tiny', '--json', *flags).stdout)
            self.assertEqual(len(answer['outputs']), 1, flags)

    def test_passes(self):
        listed = json.loads(isomer('passes', 'list', '--json').stdout)
        names = [p['name'] for p in listed['passes']]
        self.assertEqual(names, sorted(names))
        self.assertIn('fold_scale', isomer('passes', 'list').stdout)
        out = json.loads(isomer('passes', 'run', 'zoo:tiny', '--json', '--verify', '-o', self.path('t.onnx'), '--dump', self.path('dumps')).stdout)
        self.assertLess(out['operators_after'], out['operators_before'])
        self.assertTrue(any(f.endswith('fold_scale.after.iso') for f in os.listdir(self.path('dumps'))))
        isomer('compare', 'zoo:tiny', self.path('t.onnx'), '--rtol', '1e-4', '--atol', '1e-5')
        self.assertIn('stay within', isomer('passes', 'run', 'zoo:tiny', '--bisect').stdout)
        self.assertIn('fold_scale', isomer('passes', 'run', 'zoo:tiny', '--bisect', '--rtol', '0', code=1).stdout)
        kept = json.loads(isomer('passes', 'run', 'zoo:tiny', '--json', '--disable', 'fold_scale').stdout)
        self.assertNotIn('fold_scale', [p['pass'] for p in kept['passes']])
        for args in (['run', 'zoo:tiny', '--passes', 'nonsense'], ['run', 'zoo:tiny', '--pipeline', 'nonsense'], ['run', 'zoo:tiny', '--disable', 'nonsense'],
                     ['run', 'zoo:tiny', '--passes', 'dead_code', '--pipeline', 'inference'], ['run'], []):
            isomer('passes', *args, code=2)

    def test_rules_are_listed_and_shown(self):
        listed = json.loads(isomer('rules', 'list', '--json').stdout)
        self.assertGreater(len(listed['rules']), 100)
        self.assertEqual(sum(listed['families'].values()), len(listed['rules']))
        self.assertIn('rule merge-convs : exact', isomer('rules', 'show', 'merge-convs').stdout)
        self.assertIn('E-rule-name', isomer('rules', 'show', 'nobody', code=2).stderr)

    def test_rewrite_keeps_the_function(self):
        done = json.loads(isomer('rewrite', 'zoo:tiny', '--rule', 'concat-past-relu', '-o', self.path('a.onnx'), '--json').stdout)
        self.assertGreater(len(done['applied']), 0)
        isomer('compare', 'zoo:tiny', self.path('a.onnx'), '--rtol', '1e-5')
        isomer('rewrite', 'zoo:tiny', '--all', '-o', self.path('b.onnx'))
        isomer('compare', 'zoo:tiny', self.path('b.onnx'), '--rtol', '1e-4')
        self.assertIn('declined at', isomer('rewrite', 'zoo:tiny', '--rule', 'batch-norm-into-conv-with-bias', '--explain').stdout)
        isomer('rewrite', 'zoo:tiny', code=2)
        self.assertIn('E-node-name', isomer('rewrite', 'zoo:tiny', '--all', '--at', 'nobody', code=2).stderr)

    def test_rules_that_are_wrong_or_unproved_are_refused(self):
        def rules(text):
            with open(self.path('a.rules'), 'w') as f:
                f.write(text)
            return self.path('a.rules')
        head = 'rule r : exact\n  ?x : T[N, C]\n'
        for text, where, code in (('  relo(?x) => ?x', '3:3', 'E-unknown-operator'), ('  relu(?x) => relu(?y)', '3:20', 'E-rule-unbound'),
                                  ('  softmax(?x){axes=1} => ?x', '3:15', 'E-rule-attribute'),
                                  ('  relu(?x) => transpose(?x){perm=[1,0]}', '1:1', 'E-rule-type'),
                                  ('  relu(?x) => ?x\n' + head + '  relu(?x) => ?x', '4:1', 'E-duplicate-name')):
            error = isomer('rules', 'list', '--rules', rules(head + text), code=2).stderr
            self.assertIn('a.rules:%s: error[%s]' % (where, code), error)
        unproved = rules(head + '  relu(relu(?x)) => relu(?x)\n')
        self.assertIn('E-rule-proof', isomer('rewrite', 'zoo:tiny', '--rules', unproved, '--rule', 'r', code=2).stderr)
        forged = rules(head + '  relu(relu(?x)) => relu(?x)\n  proof all-sizes rule %s operators %s prover 1\n' % ('0' * 32, '0' * 32))
        self.assertIn('its text has changed', isomer('rewrite', 'zoo:tiny', '--rules', forged, '--rule', 'r', code=2).stderr)

    def test_completion_is_a_script(self):
        script = isomer('completion', 'bash').stdout
        subprocess.run(['bash', '-n'], input=script, text=True, check=True)
        self.assertIn('compare', script)


if __name__ == '__main__':
    unittest.main()
