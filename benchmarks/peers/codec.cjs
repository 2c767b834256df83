'use strict';
/*
 * Time the bridge's own msgpack codec against msgpackr, taking turns in one process.
 *
 * argv: path of bridge.cjs, rounds, calls per round. Prints JSON: milliseconds per call, by
 * payload, codec and operation, one list per round.
 *
 * The bridge is a program and exports nothing, so its text is loaded without its last line,
 * which starts it, and with a line that hands out the codec.
 */

const fs = require('fs');
const Module = require('module');
const path = require('path');

const START = /\nstart\(\);\s*$/;
const HANDED_OUT = `
module.exports = {
  decode: (bytes) => decodeFrame(bytes, 0, bytes.length),
  encode(value) {
    beginFrame(1, 'result');
    at = 4;
    const problem = putPluginValue(value, 64 * 1024 * 1024);
    if (problem !== null) throw new Error(problem.message);
    return at - 4;
  },
  encoded: () => Buffer.from(subarray(out, 4, at)),
};
`;

function loadBridgeCodec(file) {
  const text = fs.readFileSync(file, 'utf8');
  if (!START.test(text)) throw new Error('the bridge no longer ends with start()');
  const module = new Module(file, null);
  module.filename = file;
  module.paths = [];
  module._compile(text.replace(START, HANDED_OUT), file);
  return module.exports;
}

function payloads() {
  const line = 'The quick brown fox jumps over the lazy dog, again and again and again.\n';
  const accented = 'Größe und Maß, déjà vu: the quick brown fox jumps over the lazy dog once.\n';
  const mib = 1024 * 1024;
  const records = [];
  for (let i = 0; i < 8000; i++) {
    records.push({ id: i, path: 'src/module_' + i + '.ts', size: i * 37, ok: i % 2 === 0, score: i / 7 });
  }
  return {
    small: { id: 7, value: { content: [{ type: 'text', text: 'hello' }] } },
    'text 1 MiB': { id: 7, value: { text: line.repeat(Math.ceil(mib / line.length)).slice(0, mib) } },
    'mixed text 1 MiB': { id: 7, value: { text: accented.repeat(Math.ceil(mib / 78)) } },
    'records 0.5 MiB': { id: 7, value: records },
  };
}

/** Milliseconds of each call, or, where the clock would weigh too much, of a batch's mean call. */
function time(work, calls, batch) {
  const out = [];
  for (let i = 0; i < calls; i++) {
    const start = process.hrtime.bigint();
    for (let j = 0; j < batch; j++) work();
    out.push(Number(process.hrtime.bigint() - start) / 1e6 / batch);
  }
  return out;
}

function main() {
  const [, , bridgeFile, rounds, calls] = process.argv;
  const bridge = loadBridgeCodec(path.resolve(bridgeFile));
  const { Packr, isNativeAccelerationEnabled } = require('msgpackr');
  const packr = new Packr({ useRecords: false });
  const samples = {};
  const sizes = {};
  for (const [name, value] of Object.entries(payloads())) {
    const bytes = packr.pack(value);
    bridge.encode(value);
    const own = bridge.encoded();
    if (JSON.stringify(packr.unpack(own)) !== JSON.stringify(value)) throw new Error('encode: ' + name);
    if (JSON.stringify(bridge.decode(bytes)) !== JSON.stringify(value)) throw new Error('decode: ' + name);
    sizes[name] = bytes.length;
    const batch = bytes.length < 1000 ? 200 : 1;
    const contestants = {
      'encode, msgpackr': () => packr.pack(value),
      'encode, bridge': () => bridge.encode(value),
      'decode, msgpackr': () => packr.unpack(bytes),
      'decode, bridge': () => bridge.decode(bytes),
    };
    const names = Object.keys(contestants);
    samples[name] = Object.fromEntries(names.map((key) => [key, []]));
    for (const key of names) time(contestants[key], calls, batch);
    for (let round = 0; round < Number(rounds); round++) {
      for (let i = 0; i < names.length; i++) {
        const key = names[(i + round) % names.length];
        samples[name][key].push(time(contestants[key], calls, batch));
      }
    }
  }
  process.stdout.write(JSON.stringify({ samples, sizes, native: isNativeAccelerationEnabled }) + '\n');
}

main();
