'use strict';
/*
 * The bare echo: what any call into a Node process must cost at least.
 *
 * argv: "raw" or "msgpack", the descriptor to read from, the one to write to; both blocking.
 * A frame is 4 bytes of length and a body. With "raw" a body goes back as it is. With "msgpack" it
 * is a map {id, args}; an async handler gets the arguments, and {id, value} goes back. No checks,
 * no sandbox, no limits.
 */

const fs = require('fs');

const MODE = process.argv[2];
const FROM = Number(process.argv[3]);
const TO = Number(process.argv[4]);

let input = Buffer.allocUnsafe(64 * 1024);
let output = Buffer.allocUnsafe(64 * 1024);
let at = 0;

function readInto(bytes, from, to) {
  while (from < to) {
    const count = fs.readSync(FROM, bytes, from, to - from, null);
    if (count === 0) process.exit(0);
    from += count;
  }
}

function readFrame() {
  // Most frames are small and arrive whole, so one read takes length and body.
  let have = fs.readSync(FROM, input, 0, input.length, null);
  if (have === 0) process.exit(0);
  if (have < 4) {
    readInto(input, have, 4);
    have = 4;
  }
  const end = 4 + input.readUInt32BE(0);
  if (end > input.length) {
    const bigger = Buffer.allocUnsafe(end);
    input.copy(bigger, 0, 0, have);
    input = bigger;
  }
  if (have < end) readInto(input, have, end);
  return end;
}

function writeFrame(bytes, end) {
  bytes.writeUInt32BE(end - 4, 0);
  let from = 0;
  while (from < end) from += fs.writeSync(TO, bytes, from, end - from);
}

// ------------------------------------------------------------------ msgpack, the least of it

function length(bytes) {
  const value = input.readUIntBE(at, bytes);
  at += bytes;
  return value;
}

function text(bytes) {
  const value = input.utf8Slice(at, at + bytes);
  at += bytes;
  return value;
}

function list(count) {
  const value = [];
  for (let i = 0; i < count; i++) value.push(decode());
  return value;
}

function map(count) {
  const value = {};
  for (let i = 0; i < count; i++) {
    const key = decode();
    value[key] = decode();
  }
  return value;
}

function decode() {
  const byte = input[at++];
  if (byte < 0x80) return byte;
  if (byte < 0x90) return map(byte & 0x0f);
  if (byte < 0xa0) return list(byte & 0x0f);
  if (byte < 0xc0) return text(byte & 0x1f);
  if (byte >= 0xe0) return byte - 0x100;
  switch (byte) {
    case 0xc0: return null;
    case 0xc2: return false;
    case 0xc3: return true;
    case 0xcc: return length(1);
    case 0xcd: return length(2);
    case 0xce: return length(4);
    case 0xd9: return text(length(1));
    case 0xda: return text(length(2));
    case 0xdb: return text(length(4));
  }
  throw new Error('type byte ' + byte);
}

function room(bytes) {
  if (at + bytes <= output.length) return;
  const bigger = Buffer.allocUnsafe(Math.max(output.length * 2, at + bytes));
  output.copy(bigger, 0, 0, at);
  output = bigger;
}

function encode(value) {
  if (typeof value === 'string') {
    const most = value.length * 3;
    room(5 + most);
    if (most < 32) {
      const bytes = output.utf8Write(value, at + 1);
      output[at] = 0xa0 | bytes;
      at += 1 + bytes;
    } else {
      const bytes = output.utf8Write(value, at + 5);
      output[at] = 0xdb;
      output.writeUInt32BE(bytes, at + 1);
      at += 5 + bytes;
    }
    return;
  }
  room(9);
  if (typeof value === 'number') {
    if (value >= 0 && value < 0x80) {
      output[at++] = value;
    } else {
      output[at] = 0xce;
      output.writeUInt32BE(value, at + 1);
      at += 5;
    }
  } else if (Array.isArray(value)) {
    output[at++] = 0x90 | value.length;
    for (const item of value) encode(item);
  } else if (value === null) {
    output[at++] = 0xc0;
  } else if (typeof value === 'boolean') {
    output[at++] = value ? 0xc3 : 0xc2;
  } else {
    const keys = Object.keys(value);
    output[at++] = 0x80 | keys.length;
    for (const key of keys) {
      encode(key);
      encode(value[key]);
    }
  }
}

// ------------------------------------------------------------------ the two loops

async function handler(args) {
  return { content: [{ type: 'text', text: args.text }] };
}

async function serve() {
  for (;;) {
    readFrame();
    at = 4;
    const message = decode();
    const value = await handler(message.args);
    at = 4;
    encode({ id: message.id, value });
    writeFrame(output, at);
  }
}

function serveRaw() {
  for (;;) {
    const end = readFrame(); // may replace the buffer
    writeFrame(input, end);
  }
}

if (MODE === 'raw') serveRaw();
else serve();
