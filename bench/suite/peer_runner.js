// ONNX Runtime on command, for bench/suite: the protocol of module_runner.c.
//   node peer_runner.js MODEL THREADS JSON   JSON: [{name, type, dims, file}, ...] of the inputs, in a file
'use strict';
const fs = require('fs');
const readline = require('readline');
const ort = require('onnxruntime-node');

const kinds = {float32: Float32Array, int64: BigInt64Array, int32: Int32Array, uint8: Uint8Array, int8: Int8Array, bool: Uint8Array, float64: Float64Array};

async function main() {
  const [model, threads, inputs] = process.argv.slice(2);
  const session = await ort.InferenceSession.create(
      model, {intraOpNumThreads: Number(threads), interOpNumThreads: 1, executionMode: 'sequential', graphOptimizationLevel: 'all'});
  const feeds = {};
  for (const i of JSON.parse(fs.readFileSync(inputs))) {
    const bytes = fs.readFileSync(i.file);
    feeds[i.name] = new ort.Tensor(i.type, new kinds[i.type](bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length)), i.dims);
  }
  let last = await session.run(feeds);
  for await (const line of readline.createInterface({input: process.stdin})) {
    const [what, argument] = line.split(' ');
    const times = [];
    if (what === 'run') {
      for (let n = Number(argument); n > 0; --n) {
        const start = process.hrtime.bigint();
        last = await session.run(feeds);
        times.push(process.hrtime.bigint() - start);
      }
    } else if (what === 'save') {
      session.outputNames.forEach((name, k) => {
        const t = last[name];
        fs.writeFileSync(argument + k, Buffer.from(t.data.buffer, t.data.byteOffset, t.data.byteLength));
      });
    }
    process.stdout.write(times.join(' ') + '\n');
  }
}
main().catch((e) => { console.error(String(e.message || e)); process.exit(1); });
