// Runs a model in ONNX Runtime and writes an ONNX test data set (input_N.pb, output_N.pb), which `isomer compare MODEL
// --data FOLDER` then checks. Inputs are what --keep finds in the folder, else seeded random numbers.
//   node reference.js MODEL FOLDER [--dim NAME=N]... [--shape NAME:2x3]... [--seed N] [--below N] [--keep] [--against FOLDER]
// --against also prints how far its outputs are from those that lie in another folder, as a part of the largest there.
// Random integers are 0 and 1, or below N.
//   node reference.js --all FOLDER      every FOLDER/NAME/model.onnx into FOLDER/NAME, with the inputs found there
'use strict';
const fs = require('fs');
const path = require('path');
const ort = require('onnxruntime-node');

const kinds = {
  float32: [1, Float32Array], uint8: [2, Uint8Array], int8: [3, Int8Array], uint16: [4, Uint16Array], int16: [5, Int16Array],
  int32: [6, Int32Array], int64: [7, BigInt64Array], bool: [9, Uint8Array], float16: [10, Uint16Array], float64: [11, Float64Array],
  uint32: [12, Uint32Array], uint64: [13, BigUint64Array],
};

function options(argv) {
  const o = { dims: {}, shapes: {}, seed: 1, below: 2, names: [], all: '', keep: false, against: '' };
  for (let i = 0; i < argv.length; ++i) {
    if (argv[i] === '--dim') { const [k, v] = argv[++i].split('='); o.dims[k] = Number(v); }
    else if (argv[i] === '--shape') { const at = argv[++i].lastIndexOf(':'); o.shapes[argv[i].slice(0, at)] = argv[i].slice(at + 1).split('x').filter(Boolean).map(Number); }
    else if (argv[i] === '--seed') o.seed = Number(argv[++i]);
    else if (argv[i] === '--below') o.below = Number(argv[++i]);
    else if (argv[i] === '--against') o.against = argv[++i];
    else if (argv[i] === '--all') o.all = argv[++i];
    else if (argv[i] === '--keep') o.keep = true;
    else o.names.push(argv[i]);
  }
  return o;
}

// A small linear congruential stream: good enough for test inputs, the same everywhere.
function stream(seed) {
  let state = BigInt(seed) * 0x9E3779B97F4A7C15n & 0xFFFFFFFFFFFFFFFFn;
  return () => {
    state = (state * 6364136223846793005n + 1442695040888963407n) & 0xFFFFFFFFFFFFFFFFn;
    return Number(state >> 40n) / 2 ** 24;
  };
}

// The float16 with the bits of a number between -1 and 1, cut to ten of them.
function half(v) {
  const [bits] = new Uint32Array(new Float32Array([v]).buffer);
  const exponent = (bits >>> 23 & 255) - 112;
  return exponent <= 0 ? 0 : bits >>> 16 & 0x8000 | exponent << 10 | bits >>> 13 & 1023;
}

function randomTensor(type, dims, below, next) {
  const [, Kind] = kinds[type];
  const data = new Kind(dims.reduce((a, b) => a * b, 1));
  for (let i = 0; i < data.length; ++i) {
    const u = next();
    data[i] = type.startsWith('float') && type !== 'float16' ? 2 * u - 1 : type === 'float16' ? half(2 * u - 1) : typeof data[i] === 'bigint' ? BigInt(Math.floor(u * below)) : type === 'bool' ? u >= 0.5 : Math.floor(u * below);
  }
  return new ort.Tensor(type, data, dims);
}

function varint(n) {
  const out = [];
  for (let v = BigInt(n); ; v >>= 7n) {
    if (v < 128n) { out.push(Number(v)); return Buffer.from(out); }
    out.push(Number(v & 127n) | 128);
  }
}

// TensorProto: dims = 1, data_type = 2, raw_data = 9.
function tensorProto(tensor) {
  const parts = [];
  for (const d of tensor.dims) parts.push(Buffer.from([8]), varint(d));
  parts.push(Buffer.from([16]), varint(kinds[tensor.type][0]));
  const raw = Buffer.from(tensor.data.buffer, tensor.data.byteOffset, tensor.data.byteLength);
  parts.push(Buffer.from([74]), varint(raw.length), raw);
  return Buffer.concat(parts);
}

// The inverse of tensorProto: dims unpacked, contents in raw_data.
function readTensor(file) {
  const bytes = fs.readFileSync(file), dims = [];
  let at = 0, type = 0, raw = Buffer.alloc(0);
  const number = () => { let v = 0n; for (let shift = 0n; ; shift += 7n) { const b = bytes[at++]; v |= BigInt(b & 127) << shift; if (b < 128) return Number(v); } };
  while (at < bytes.length) {
    const key = number();
    if (key === 8) dims.push(number());
    else if (key === 16) type = number();
    else { const n = number(); if (key === 74) raw = bytes.subarray(at, at + n); at += n; }
  }
  const name = Object.keys(kinds).find((k) => kinds[k][0] === type);
  if (!name) throw new Error(`${file}: element type ${type} is not known`);
  return new ort.Tensor(name, new kinds[name][1](new Uint8Array(raw).buffer), dims);
}

// The largest difference of two tensors as a part of the largest number of the second one; infinite where they have nothing in common.
function distance(a, b) {
  if (a.type !== b.type || String(a.dims) !== String(b.dims)) return Infinity;
  let largest = 0, apart = 0;
  for (let i = 0; i < b.data.length; ++i) {
    const x = Number(a.data[i]), y = Number(b.data[i]);
    if (x === y || (Number.isNaN(x) && Number.isNaN(y))) { if (Number.isFinite(y)) largest = Math.max(largest, Math.abs(y)); continue; }
    if (!Number.isFinite(x) || !Number.isFinite(y)) return Infinity;
    largest = Math.max(largest, Math.abs(y));
    apart = Math.max(apart, Math.abs(x - y));
  }
  return apart === 0 ? 0 : apart / largest;
}

// Without VNNI its products of signed and unsigned bytes saturate at 16 bits unless it is told otherwise. That it refuses for some
// models whose nodes share a zero point; these it runs node by node, dequantised products as floats.
async function open(model) {
  const exact = { logSeverityLevel: 4, extra: { session: { x64quantprecision: '1' } } };
  const plain = { logSeverityLevel: 4, graphOptimizationLevel: 'basic' };
  return ort.InferenceSession.create(model, exact).catch(() => ort.InferenceSession.create(model, plain));
}

async function reference(model, folder, o) {
  const session = await open(model);
  const next = stream(o.seed);
  const feeds = {};
  fs.mkdirSync(folder, { recursive: true });
  session.inputMetadata.forEach((m, i) => {
    const file = path.join(folder, `input_${i}.pb`);
    if (o.keep && fs.existsSync(file)) { feeds[m.name] = readTensor(file); return; }
    const dims = o.shapes[m.name] || m.shape.map((d) => {
      const n = typeof d === 'number' && d >= 0 ? d : o.dims[d];
      if (n === undefined) throw new Error(`dimension '${d}' of input '${m.name}' is dynamic: give --dim or --shape`);
      return n;
    });
    feeds[m.name] = randomTensor(m.type, dims, o.below, next);
    fs.writeFileSync(file, tensorProto(feeds[m.name]));
  });
  const results = await session.run(feeds);
  session.outputNames.forEach((name, i) => fs.writeFileSync(path.join(folder, `output_${i}.pb`), tensorProto(results[name])));
  if (o.against) console.log(`distance ${Math.max(0, ...session.outputNames.map((name, i) => distance(results[name], readTensor(path.join(o.against, `output_${i}.pb`)))))}`);
  console.log(`${path.basename(model)}: ${session.inputNames.length} inputs, ${session.outputNames.length} outputs -> ${folder}`);
}

async function main() {
  const o = options(process.argv.slice(2));
  if (!o.all) {
    if (o.names.length !== 2) throw new Error('usage: reference.js MODEL FOLDER [--dim NAME=N] [--shape NAME:2x3] [--seed N] [--keep] [--against FOLDER]');
    return reference(o.names[0], o.names[1], o);
  }
  for (const name of fs.readdirSync(o.all).sort()) {
    const folder = path.join(o.all, name), model = path.join(folder, 'model.onnx');
    if (!fs.existsSync(model)) continue;
    // One model that ONNX Runtime refuses must not stop the others: the reason lies beside it.
    await reference(model, folder, { ...o, keep: true }).catch((e) => fs.writeFileSync(path.join(folder, 'refused.txt'), String(e.message || e) + '\n'));
  }
}

main().catch((e) => { console.error(String(e.message || e)); process.exit(1); });
