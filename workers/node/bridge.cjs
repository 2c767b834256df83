'use strict';
/*
 * The worker side of the protocol, for one ESM plugin in one Node process.
 *
 *   fd 3  requests  read synchronously. While idle the thread blocks here, so nothing of the
 *                   plugin (timers, promises, sockets) runs between two calls.
 *   fd 4  replies   written synchronously, whole frames only.
 *   fd 5  control   abort and replies; read by the event loop, and only once a handler is
 *                   still pending after one turn of it. A pipe of its own, because a blocking
 *                   and an asynchronous reader of one pipe steal each other's frames.
 *   fd 1, 2         logs. process.stdout and process.stderr become synchronous writers:
 *                   Node's own queue what a full pipe does not take, and would deliver it
 *                   during the next call.
 *
 * Rules of this file
 *   1. Every builtin is captured before the plugin is imported, and nothing on the way of a
 *      frame reads a property that a plugin can put on a shared prototype: no for...of, no
 *      spread, no array destructuring, no `x.method()` on strings, arrays, buffers, promises.
 *   2. A value of the plugin is read once, while it is encoded. There is no second look that
 *      could see something else.
 *   3. A call ends one turn of the event loop after its handler settled, so microtasks and
 *      unhandled rejections of call A are still call A's.
 *
 * Security: this keeps a monkey patch, mischievous or not, out of the frames. It is no
 * boundary: a plugin can write to fd 4 itself. The supervisor's decoder and the sandbox are.
 *
 * Contract: seed 2 (handler, validateArgs, describeEffects). No dependencies: one CommonJS
 * file makes its first call 20 ms sooner than a graph of modules.
 */

// ------------------------------------------------------------------ captured builtins

const fs = require('fs');
const nodeBuffer = require('buffer');
const { pathToFileURL } = require('url');
const diagnostics = require('diagnostics_channel');

const { bind, call } = Function.prototype;
const uncurryThis = bind.bind(call);

const { apply, ownKeys, getPrototypeOf, defineProperty } = Reflect;
const { isProxy } = require('util').types;
const ObjectPrototype = Object.prototype;
const ArrayPrototype = Array.prototype;
const objectKeys = Object.keys;
const freeze = Object.freeze;
const isArray = Array.isArray;
const ArrayOf = Array;
const ErrorOf = Error;
const BytesOf = Uint8Array;
const ProxyOf = Proxy;
const reflectSet = Reflect.set;
const reflectDelete = Reflect.deleteProperty;
const tagOf = uncurryThis(ObjectPrototype.toString);
const StringOf = String;
const { isFinite, isSafeInteger } = Number;
const floor = Math.floor;
const charCodeAt = uncurryThis(String.prototype.charCodeAt);
const stringSlice = uncurryThis(String.prototype.slice);
const isWellFormed = uncurryThis(String.prototype.isWellFormed);
const toWellFormed = uncurryThis(String.prototype.toWellFormed);

const allocUnsafeSlow = Buffer.allocUnsafeSlow;
const byteLength = Buffer.byteLength;
const utf8Write = uncurryThis(Buffer.prototype.utf8Write ?? Buffer.prototype.write);
const utf8Slice = uncurryThis(Buffer.prototype.utf8Slice);
const latin1Slice = uncurryThis(Buffer.prototype.latin1Slice);
const ucs2Slice = uncurryThis(Buffer.prototype.ucs2Slice);
const subarray = uncurryThis(Buffer.prototype.subarray);
const copyWithin = uncurryThis(Uint8Array.prototype.copyWithin);
const setBytes = uncurryThis(Uint8Array.prototype.set);
const { isAscii, transcode } = nodeBuffer;
const floatView = new Float64Array(1);
const floatBytes = new Uint8Array(floatView.buffer);

const { readSync, writeSync, statSync, readdirSync } = fs;
const setImmediateOf = setImmediate;
const setIntervalOf = setInterval;
const clearIntervalOf = clearInterval;
const waitOn = Atomics.wait;
const pauseCell = new Int32Array(new SharedArrayBuffer(4));
const AbortControllerOf = AbortController;
const { get: signalGetter } = Object.getOwnPropertyDescriptor(AbortController.prototype, 'signal');
const signalOf = uncurryThis(signalGetter);
const abort = uncurryThis(AbortController.prototype.abort);
const getterOf = (name) => uncurryThis(Object.getOwnPropertyDescriptor(AbortSignal.prototype, name).get);
const isAborted = getterOf('aborted');
const abortCause = getterOf('reason');
const addListener = uncurryThis(EventTarget.prototype.addEventListener);
const removeListener = uncurryThis(EventTarget.prototype.removeEventListener);
const PromiseOf = Promise;
const TypeErrorOf = TypeError;

const exitNow = process.reallyExit;
const workingDirectory = process.cwd;
const activeResources = process.getActiveResourcesInfo;
const residentBytes = process.memoryUsage.rss;
const eventNames = process.eventNames;
const listenerCount = process.listenerCount;
const processOf = process;
const requireOf = require;

// ------------------------------------------------------------------ limits

const REQUESTS_FD = 3;
const REPLIES_FD = 4;
const CONTROL_FD = 5;
const PROTOCOL_VERSION = 1;

const MAX_DEPTH = 64;
/** Values in one result. The supervisor's decoder refuses more, so say it as a failure here. */
const MAX_NODES = 100_000;
const MAX_REQUEST_BYTES = 64 * 1024 * 1024;
const MAX_DESCRIBED_BYTES = 1024 * 1024;
const FIRST_BUFFER_BYTES = 64 * 1024;
/** A buffer that grew beyond this is dropped, so one big call does not hold memory for ever. */
const KEPT_BUFFER_BYTES = 4 * 1024 * 1024;
const MAX_NAME_BYTES = 256;
const MAX_MESSAGE_BYTES = 8 * 1024;
const MAX_STACK_BYTES = 16 * 1024;
const MAX_CAUSES = 4;
const TRUNCATION_BYTES = 48;
/** Resident size and open descriptors cost 20 us: one reading serves this many calls. */
const CALLS_PER_FULL_COUNT = 8;
/** libuv opens /dev/null with the first stream, to have a spare when descriptors run out. */
const SPARE_DESCRIPTORS = 1;
/** libuv closes a handle some turns of the loop after the plugin closed it. */
const MAX_CLOSING_TURNS = 4;
/** Uncaught errors of one call before Node itself counts as broken by the plugin. */
const MAX_UNCAUGHT = 1000;
const EXIT_PROTOCOL = 70;

/** Write the message to the log and end the process: the supervisor or this file has a bug. */
function die(message) {
  try {
    writeSync(2, 'bridge: ' + message + '\n');
  } catch {
    // The log is gone; the exit code is what is left to say it.
  }
  exitNow(EXIT_PROTOCOL);
}

/** Write a whole buffer. A plugin may have made the pipe non-blocking, hence the wait. */
function writeAll(fd, bytes, from, to) {
  while (from < to) {
    try {
      from += writeSync(fd, bytes, from, to - from);
    } catch (error) {
      if (error.code !== 'EAGAIN' && error.code !== 'EINTR') throw error;
      waitOn(pauseCell, 0, 0, 1);
    }
  }
}

// ------------------------------------------------------------------ decoding (trusted bytes)

let source = null;
let cursor = 0;
let sourceEnd = 0;

/** Property names come again and again; a hit saves a call into C++. */
const NAME_SLOTS = 256;
const MAX_CACHED_NAME_BYTES = 24;
const cachedNames = new ArrayOf(NAME_SLOTS).fill('');
const cachedBytes = new ArrayOf(NAME_SLOTS).fill(null);

function decodeValue(depth) {
  const byte = source[cursor++];
  if (byte < 0x80) return byte;
  if (byte >= 0xe0) return byte - 0x100;
  if (byte < 0x90) return decodeMap(byte & 0x0f, depth);
  if (byte < 0xa0) return decodeArray(byte & 0x0f, depth);
  if (byte < 0xc0) return decodeText(byte & 0x1f);
  switch (byte) {
    case 0xc0: return null;
    case 0xc2: return false;
    case 0xc3: return true;
    case 0xcb: return decodeFloat();
    case 0xcc: return decodeUnsigned(1);
    case 0xcd: return decodeUnsigned(2);
    case 0xce: return decodeUnsigned(4);
    case 0xcf: return decodeUnsigned(4) * 0x1_0000_0000 + decodeUnsigned(4);
    case 0xd0: return (decodeUnsigned(1) << 24) >> 24;
    case 0xd1: return (decodeUnsigned(2) << 16) >> 16;
    case 0xd2: return decodeUnsigned(4) | 0;
    case 0xd3: return (decodeUnsigned(4) | 0) * 0x1_0000_0000 + decodeUnsigned(4);
    case 0xd9: return decodeText(decodeUnsigned(1));
    case 0xda: return decodeText(decodeUnsigned(2));
    case 0xdb: return decodeText(decodeUnsigned(4));
    case 0xdc: return decodeArray(decodeUnsigned(2), depth);
    case 0xdd: return decodeArray(decodeUnsigned(4), depth);
    case 0xde: return decodeMap(decodeUnsigned(2), depth);
    case 0xdf: return decodeMap(decodeUnsigned(4), depth);
  }
  return die('a frame holds the unknown type byte ' + byte);
}

function decodeUnsigned(bytes) {
  let value = 0;
  for (let i = 0; i < bytes; i++) value = value * 256 + source[cursor++];
  return value;
}

function decodeFloat() {
  for (let i = 7; i >= 0; i--) floatBytes[i] = source[cursor++];
  return floatView[0];
}

function decodeText(bytes) {
  const from = cursor;
  cursor += bytes;
  if (cursor > sourceEnd) die('a frame ends inside a string');
  if (bytes < 64) {
    for (let i = from; i < cursor; i++) {
      if (source[i] >= 0x80) return utf8Slice(source, from, cursor);
    }
    return latin1Slice(source, from, cursor);
  }
  const part = subarray(source, from, cursor);
  if (isAscii(part)) return latin1Slice(part);
  // Through UTF-16 is five times as fast as V8's own UTF-8 decoder.
  if (bytes > 4096 && transcode !== undefined) return ucs2Slice(transcode(part, 'utf8', 'ucs2'));
  return utf8Slice(part);
}

function decodeName() {
  const byte = source[cursor];
  const bytes = byte & 0x1f;
  if (byte < 0xa0 || byte >= 0xc0 || bytes > MAX_CACHED_NAME_BYTES || bytes === 0) {
    const name = decodeValue(0);
    return typeof name === 'string' ? name : die('a frame has a key that is not a string');
  }
  const from = cursor + 1;
  const slot = (bytes * 31 + source[from] * 7 + source[from + bytes - 1]) & (NAME_SLOTS - 1);
  const known = cachedBytes[slot];
  if (known !== null && known[0] === bytes) {
    let i = 0;
    while (i < bytes && known[i + 1] === source[from + i]) i++;
    if (i === bytes) {
      cursor = from + bytes;
      return cachedNames[slot];
    }
  }
  cursor = from;
  const name = decodeText(bytes);
  const copy = new BytesOf(bytes + 1);
  copy[0] = bytes;
  for (let i = 0; i < bytes; i++) copy[i + 1] = source[from + i];
  cachedBytes[slot] = copy;
  cachedNames[slot] = name;
  return name;
}

/** Whether assigning a property could run a setter that the plugin put on Object.prototype. */
let prototypeIsClean = true;
const prototypeNames = ownKeys(ObjectPrototype).length;

function decodeMap(pairs, depth) {
  if (depth > MAX_DEPTH + 8) die('a frame is nested too deeply');
  // Depth 0 is the message itself, which this file reads; the rest goes to the plugin.
  const map = depth === 0 ? { __proto__: null } : {};
  for (let i = 0; i < pairs; i++) {
    const name = decodeName();
    const value = decodeValue(depth + 1);
    if (depth === 0 || (prototypeIsClean && name !== '__proto__')) map[name] = value;
    else defineProperty(map, name, dataProperty(value));
  }
  return map;
}

function decodeArray(items, depth) {
  if (depth > MAX_DEPTH + 8) die('a frame is nested too deeply');
  if (items > sourceEnd - cursor) die('a frame ends inside an array');
  const array = [];
  for (let i = 0; i < items; i++) {
    const value = decodeValue(depth + 1);
    if (prototypeIsClean) array[i] = value;
    else defineProperty(array, i, dataProperty(value));
  }
  return array;
}

function dataProperty(value) {
  return { __proto__: null, value, writable: true, enumerable: true, configurable: true };
}

function decodeFrame(bytes, from, to) {
  source = bytes;
  cursor = from;
  sourceEnd = to;
  prototypeIsClean = ownKeys(ObjectPrototype).length === prototypeNames;
  const message = decodeValue(0);
  if (cursor !== to) die('a frame has ' + (to - cursor) + ' bytes left over');
  source = null;
  if (typeof message !== 'object' || message === null || isArray(message)) {
    die('a frame is not a map');
  }
  return message;
}

// ------------------------------------------------------------------ encoding

let out = allocUnsafeSlow(FIRST_BUFFER_BYTES);
let outSize = FIRST_BUFFER_BYTES;
let at = 0;
/** Bytes of `out` beyond which the value under way is too large. */
let ceiling = Infinity;
let nodes = 0;

/** Where the encoder is, for messages; own elements, so assignment meets no setter. */
const path = new ArrayOf(MAX_DEPTH + 2).fill('');
const ancestors = new ArrayOf(MAX_DEPTH + 2).fill(null);
let pathDepth = 0;

/** Thrown by `refuse`; what is wrong lies in `refusal`. */
const REFUSED = freeze({ __proto__: null });
let refusal = null;

function pointerTo(depth) {
  let pointer = '';
  for (let i = 0; i < depth; i++) {
    pointer += '/';
    const token = StringOf(path[i]);
    const shown = token.length > 200 ? stringSlice(token, 0, 200) + '…' : token;
    for (let j = 0; j < shown.length; j++) {
      const unit = charCodeAt(shown, j);
      pointer += unit === 0x7e ? '~0' : unit === 0x2f ? '~1' : shown[j];
    }
  }
  return pointer === '' ? '(root)' : toWellFormed(pointer);
}

function refuse(kind, depth, text) {
  // The text may name what the plugin chose: a tag of any length, with lone surrogates.
  const message = truncate(pointerTo(depth) + ': ' + text, MAX_MESSAGE_BYTES);
  refusal = failure(kind, 'NotSerializable', message, '');
  throw REFUSED;
}

function grow(bytes) {
  let size = outSize * 2;
  while (size < at + bytes) size *= 2;
  const bigger = allocUnsafeSlow(size);
  setBytes(bigger, subarray(out, 0, at), 0);
  out = bigger;
  outSize = size;
}

function putByte(byte) {
  if (at >= outSize) grow(1);
  out[at++] = byte;
}

function putUnsigned(value, bytes) {
  if (at + bytes > outSize) grow(bytes);
  for (let i = bytes - 1; i >= 0; i--) {
    out[at + i] = value & 0xff;
    value = floor(value / 256);
  }
  at += bytes;
}

function putNumber(value, depth) {
  if (at + 9 > outSize) grow(9);
  if (value === (value | 0)) {
    // -0 arrives here too, and leaves as 0.
    if (value >= 0) {
      if (value < 0x80) { out[at++] = value | 0; return; }
      if (value < 0x100) { out[at++] = 0xcc; out[at++] = value; return; }
      if (value < 0x10000) { out[at++] = 0xcd; putUnsigned(value, 2); return; }
      out[at++] = 0xce;
      putUnsigned(value, 4);
      return;
    }
    if (value >= -32) { out[at++] = value + 0x100; return; }
    out[at++] = 0xd2;
    putUnsigned(value >>> 0, 4);
    return;
  }
  if (isSafeInteger(value)) {
    const high = floor(value / 0x1_0000_0000);
    out[at++] = 0xd3;
    putUnsigned(high >>> 0, 4);
    putUnsigned(value - high * 0x1_0000_0000, 4);
    return;
  }
  if (!isFinite(value)) refuse('not_serializable', depth, 'is ' + value + ', which JSON cannot express');
  floatView[0] = value;
  out[at++] = 0xcb;
  for (let i = 7; i >= 0; i--) out[at++] = floatBytes[i];
}

function putTextHeader(position, bytes, headerBytes) {
  if (headerBytes === 1) { out[position] = 0xa0 | bytes; return; }
  if (headerBytes === 2) { out[position] = 0xd9; out[position + 1] = bytes; return; }
  if (headerBytes === 3) {
    out[position] = 0xda;
    out[position + 1] = bytes >>> 8;
    out[position + 2] = bytes;
    return;
  }
  out[position] = 0xdb;
  out[position + 1] = bytes >>> 24;
  out[position + 2] = bytes >>> 16;
  out[position + 3] = bytes >>> 8;
  out[position + 4] = bytes;
}

/**
 * The header is chosen for the most bytes the text can have, so that one pass is enough; it
 * may therefore be longer than the shortest form, which msgpack allows.
 */
function putText(text, depth) {
  const units = text.length;
  if (units < 32) {
    if (at + 97 > outSize) grow(97);
    const start = at;
    let position = at + 1;
    let i = 0;
    for (; i < units; i++) {
      const unit = charCodeAt(text, i);
      if (unit >= 0x80) break;
      out[position++] = unit;
    }
    if (i === units) {
      out[start] = 0xa0 | units;
      at = position;
      return;
    }
  }
  if (!isWellFormed(text)) refuse('not_serializable', depth, 'has a lone surrogate');
  if (units > ceiling - at) tooLarge();
  const most = units * 3;
  const headerBytes = most < 32 ? 1 : most < 0x100 ? 2 : most < 0x10000 ? 3 : 5;
  const room = most > 0x10000 && most > ceiling - at ? ceiling - at + 4 : most;
  if (at + headerBytes + room > outSize) grow(headerBytes + room);
  const start = at + headerBytes;
  const written = utf8Write(out, text, start, room);
  // A text that ran out of room was cut between two characters, at most 3 bytes early.
  if (room < most && written > room - 4 && byteLength(text) !== written) tooLarge();
  putTextHeader(at, written, headerBytes);
  at = start + written;
}

function tooLarge() {
  refusal = failure('too_large', 'TooLarge', 'the value is larger than the allowed bytes', '');
  throw REFUSED;
}

function nameOfType(value) {
  if (typeof value !== 'object') return typeof value;
  const tag = tagOf(value);
  const name = stringSlice(tag, 8, -1);
  return name === 'Object' || name === 'Array' ? 'object with a prototype of its own' : name;
}

function putValue(value, depth) {
  pathDepth = depth;
  if (at > ceiling) tooLarge();
  switch (typeof value) {
    case 'string': putText(value, depth); break;
    case 'number': putNumber(value, depth); break;
    case 'boolean': putByte(value ? 0xc3 : 0xc2); break;
    case 'object':
      if (value === null) putByte(0xc0);
      else putContainer(value, depth);
      break;
    default:
      refuse('not_serializable', depth, 'is ' + article(typeof value) + ', which is not JSON data');
  }
}

function article(name) {
  return (name === 'undefined' ? '' : 'a ') + name;
}

function putContainer(value, depth) {
  const prototype = getPrototypeOf(value);
  const array = isArray(value);
  if (array ? prototype !== ArrayPrototype : prototype !== ObjectPrototype && prototype !== null) {
    refuse('not_serializable', depth, 'is a ' + nameOfType(value) + ', which is not JSON data');
  }
  if (depth >= MAX_DEPTH) refuseDeep(value);
  ancestors[depth] = value;
  if (array) putArray(value, depth);
  else putObject(value, depth);
}

/** A cycle is found as too deep a value: nothing is paid for it before. */
function refuseDeep(value) {
  ancestors[MAX_DEPTH] = value;
  for (let i = 1; i <= MAX_DEPTH; i++) {
    for (let j = 0; j < i; j++) {
      if (ancestors[i] === ancestors[j]) {
        refuse('not_serializable', i, 'is part of a cycle that began at ' + pointerTo(j));
      }
    }
  }
  refuse('not_serializable', MAX_DEPTH, 'is nested more than ' + MAX_DEPTH + ' deep');
}

function countNodes(count) {
  nodes += count;
  if (!(nodes <= MAX_NODES)) {
    refusal = failure('too_large', 'TooLarge', 'the value has more than ' + MAX_NODES + ' parts', '');
    throw REFUSED;
  }
}

function putArray(value, depth) {
  const items = value.length;
  countNodes(items);
  if (items < 16) {
    putByte(0x90 | items);
  } else if (items < 0x10000) {
    putByte(0xdc);
    putUnsigned(items, 2);
  } else {
    putByte(0xdd);
    putUnsigned(items, 4);
  }
  for (let i = 0; i < items; i++) {
    path[depth] = i;
    pathDepth = depth + 1;
    putValue(value[i], depth + 1);
  }
}

function putObject(value, depth) {
  if (isProxy(value)) {
    // Listing its enumerable names asks it once for each: count them all before.
    const count = ownKeys(value).length;
    countNodes(count);
    nodes -= count;
  }
  const names = objectKeys(value);
  const most = names.length;
  countNodes(most);
  const header = at;
  const headerBytes = most < 16 ? 1 : most < 0x10000 ? 3 : 5;
  if (at + 5 > outSize) grow(5);
  at += headerBytes;
  let pairs = 0;
  for (let i = 0; i < most; i++) {
    const name = names[i];
    path[depth] = name;
    pathDepth = depth + 1;
    const item = value[name];
    if (item === undefined) continue;
    putText(name, depth + 1);
    putValue(item, depth + 1);
    pairs++;
  }
  if (headerBytes === 1) {
    out[header] = 0x80 | pairs;
  } else if (headerBytes === 3) {
    out[header] = 0xde;
    out[header + 1] = pairs >>> 8;
    out[header + 2] = pairs;
  } else {
    out[header] = 0xdf;
    out[header + 1] = pairs >>> 24;
    out[header + 2] = pairs >>> 16;
    out[header + 3] = pairs >>> 8;
    out[header + 4] = pairs;
  }
}

function beginFrame(pairs, type) {
  at = 4;
  ceiling = Infinity;
  putByte(0x80 | pairs);
  putText('t', 0);
  putText(type, 0);
}

function putField(name) {
  putText(name, 0);
}

function putCount(name, value) {
  putText(name, 0);
  putNumber(value, 0);
}

function sendFrame() {
  const body = at - 4;
  out[0] = body >>> 24;
  out[1] = body >>> 16;
  out[2] = body >>> 8;
  out[3] = body;
  try {
    writeAll(REPLIES_FD, out, 0, at);
  } catch {
    exitNow(0); // The supervisor is gone, or the plugin closed the pipe.
  }
  if (outSize > KEPT_BUFFER_BYTES) {
    out = allocUnsafeSlow(FIRST_BUFFER_BYTES);
    outSize = FIRST_BUFFER_BYTES;
  }
}

/**
 * Encode a value of the plugin after what `out` holds already.
 *
 * Returns null, or the failure to report instead; `out` is then rubbish from there on.
 */
function putPluginValue(value, maxBytes) {
  ceiling = at + maxBytes;
  nodes = 1;
  try {
    putValue(value, 0);
    if (at > ceiling) tooLarge();
    return null;
  } catch (error) {
    if (error === REFUSED) return refusal;
    const inner = describeThrown('threw', error, MAX_CAUSES);
    return failure(
      'not_serializable',
      'NotSerializable',
      truncate(pointerTo(pathDepth) + ': threw while it was read: ' + inner.message, MAX_MESSAGE_BYTES),
      inner.stack,
    );
  } finally {
    ceiling = Infinity;
    for (let i = 0; i <= MAX_DEPTH; i++) ancestors[i] = null;
  }
}

// ------------------------------------------------------------------ errors

function failure(kind, name, message, stack) {
  return { __proto__: null, kind, name, message, stack, cause: null };
}

/** Bound a text to `maxBytes` of UTF-8, and say how much is missing. */
function truncate(text, maxBytes) {
  if (text.length * 3 <= maxBytes) return toWellFormed(text);
  const whole = byteLength(text);
  if (whole <= maxBytes) return toWellFormed(text);
  const room = maxBytes - TRUNCATION_BYTES;
  let kept = stringSlice(text, 0, room);
  for (let bytes = byteLength(kept); bytes > room; bytes = byteLength(kept)) {
    kept = stringSlice(kept, 0, floor((kept.length * room) / bytes));
  }
  return toWellFormed(kept) + '… [truncated ' + (whole - byteLength(kept)) + ' bytes]';
}

/** Read a text property of a thrown value. It may be a getter, or the value a Proxy. */
function readText(value, name, maxBytes) {
  try {
    const text = value[name];
    return typeof text === 'string' ? truncate(text, maxBytes) : '';
  } catch {
    return '';
  }
}

function readCause(value) {
  try {
    return value.cause;
  } catch {
    return undefined;
  }
}

function describeThrown(kind, thrown, causes) {
  if ((typeof thrown !== 'object' || thrown === null) && typeof thrown !== 'function') {
    const text = thrown === null ? 'null' : typeof thrown;
    return failure(kind, text, truncate(StringOf(thrown), MAX_MESSAGE_BYTES), '');
  }
  const error = failure(
    kind,
    readText(thrown, 'name', MAX_NAME_BYTES) || 'Error',
    readText(thrown, 'message', MAX_MESSAGE_BYTES),
    readText(thrown, 'stack', MAX_STACK_BYTES),
  );
  const cause = causes > 0 ? readCause(thrown) : undefined;
  if (cause !== undefined && cause !== thrown) error.cause = describeThrown(kind, cause, causes - 1);
  return error;
}

function putError(error) {
  putByte(error.cause === null ? 0x84 : 0x85);
  putField('kind');
  putText(error.kind, 0);
  putField('name');
  putText(error.name, 0);
  putField('message');
  putText(error.message, 0);
  putField('stack');
  putText(error.stack, 0);
  if (error.cause !== null) {
    putField('cause');
    putError(error.cause);
  }
}

// ------------------------------------------------------------------ what a handler leaves behind

/** Singly linked, because writing to an array's end would meet a setter on Array.prototype. */
let workers = null;
let children = null;
let unrefed = null;
let environmentWritten = false;
let controlSocket = null;
let abandoned = false;
let callsUntilFullCount = 0;
let lastResidentBytes = 0;
let lastDescriptors = 0;
let baseline = null;
let builtins = null;

function watchThreadsAndChildren() {
  diagnostics.subscribe('worker_threads', (event) => {
    workers = { __proto__: null, item: event.worker, next: workers };
  });
  diagnostics.subscribe('child_process', (event) => {
    children = { __proto__: null, item: event.process, next: children };
  });
}

/** A timer that was unref'd is in no list that Node shows, but it would fire in a later call. */
function watchUnrefedTimers() {
  const timer = setTimeout(() => {}, 1);
  const immediate = setImmediate(() => {});
  for (const prototype of [getPrototypeOf(timer), getPrototypeOf(immediate)]) {
    const unref = uncurryThis(prototype.unref);
    prototype.unref = function () {
      unrefed = { __proto__: null, item: this, next: unrefed };
      return unref(this);
    };
  }
  clearTimeout(timer);
  clearImmediate(immediate);
}

/** Comparing every variable after every call would cost 10 us; noticing a write costs nothing. */
function watchEnvironment() {
  const handler = {
    __proto__: null,
    set(target, name, value) {
      environmentWritten = true;
      return reflectSet(target, name, value);
    },
    deleteProperty(target, name) {
      environmentWritten = true;
      return reflectDelete(target, name);
    },
    defineProperty(target, name, property) {
      environmentWritten = true;
      return defineProperty(target, name, property);
    },
  };
  defineProperty(process, 'env', dataProperty(new ProxyOf(process.env, handler)));
}

function isAlive(kind, item) {
  try {
    if (kind === 'worker') return item.threadId !== -1;
    if (kind === 'child') return item.exitCode === null && item.signalCode === null;
    return item._destroyed !== true && item.hasRef() === false;
  } catch {
    return true;
  }
}

/** Count what is alive in a list, and forget the rest. */
function prune(kind, list) {
  let kept = null;
  let count = 0;
  for (let node = list; node !== null; node = node.next) {
    if (!isAlive(kind, node.item)) continue;
    kept = { __proto__: null, item: node.item, next: kept };
    count++;
  }
  return { __proto__: null, list: kept, count };
}

function countListeners() {
  let count = 0;
  const names = apply(eventNames, processOf, []);
  for (let i = 0; i < names.length; i++) count += apply(listenerCount, processOf, [names[i]]);
  return count;
}

function countDescriptors() {
  try {
    // The kernel says the number of open descriptors as the size since 6.2.
    const size = statSync('/proc/self/fd').size;
    return size > 0 ? size : readdirSync('/proc/self/fd').length;
  } catch {
    return 0;
  }
}

/**
 * The builtins that other code leans on most. Written out, because a literal access is
 * 50 times as fast as one by a name in a variable, and this runs after every call.
 */
function readBuiltins() {
  return [
    ArrayPrototype.push, ArrayPrototype.map, ArrayPrototype.join, ArrayPrototype.slice,
    ArrayPrototype.forEach, ArrayPrototype[Symbol.iterator], ArrayPrototype.includes,
    ObjectPrototype.toString, ObjectPrototype.hasOwnProperty, ObjectPrototype.valueOf,
    String.prototype.slice, String.prototype.replace, String.prototype.split,
    RegExp.prototype.exec, RegExp.prototype.test, Function.prototype.call,
    Function.prototype.apply, Function.prototype.bind, Promise.prototype.then,
    Promise.prototype.catch, Promise.prototype.finally, Map.prototype.get, Map.prototype.set,
    Object.keys, Object.assign, Object.freeze, Object.defineProperty, Object.create,
    JSON.parse, JSON.stringify, Math.random, Date.now, Error.captureStackTrace,
    Error.prepareStackTrace, Error.stackTraceLimit, Buffer.from, Buffer.alloc, Buffer.concat,
    Buffer.prototype.toString, Buffer.prototype.write, Buffer.prototype.utf8Write,
    fs.readFileSync, fs.writeFileSync, fs.readSync, fs.writeSync, fs.openSync, fs.existsSync,
    fs.statSync, fs.readFile, fs.writeFile, fs.promises.readFile, fs.promises.writeFile,
    processOf.exit, processOf.reallyExit, processOf.cwd, processOf.nextTick, processOf.emit,
    processOf.on, processOf.exitCode, processOf.env, console.log, console.error,
    globalThis.setTimeout, globalThis.setInterval, globalThis.setImmediate, globalThis.Promise,
    globalThis.queueMicrotask, globalThis.JSON, globalThis.Object, globalThis.Array,
    globalThis.Error, globalThis.Buffer, globalThis.process, globalThis.console,
  ];
}

function builtinsChanged() {
  if (ownKeys(ObjectPrototype).length !== prototypeNames) return true;
  try {
    const now = readBuiltins();
    for (let i = 0; i < now.length; i++) if (now[i] !== builtins[i]) return true;
    return false;
  } catch {
    return true; // A whole constructor is gone.
  }
}

let timers = 0;
let handles = 0;

function countResources() {
  timers = 0;
  handles = controlSocket === null ? 0 : -1;
  const resources = activeResources();
  for (let i = 0; i < resources.length; i++) {
    if (resources[i] === 'Timeout' || resources[i] === 'Immediate') timers++;
    else handles++;
  }
}

/** Whether handles are open that were not after the import; a closing one counts as open. */
function hasOpenHandles() {
  try {
    countResources();
    return handles > baseline.handles;
  } catch {
    return false; // Said by `putState`.
  }
}

function measure() {
  countResources();
  if (abandoned) handles++;
  let threads = 0;
  if (unrefed !== null) {
    const pruned = prune('timer', unrefed);
    unrefed = pruned.list;
    timers += pruned.count;
  }
  if (workers !== null) {
    const pruned = prune('worker', workers);
    workers = pruned.list;
    threads = pruned.count;
  }
  let processes = 0;
  if (children !== null) {
    const pruned = prune('child', children);
    children = pruned.list;
    processes = pruned.count;
  }
  if (callsUntilFullCount-- <= 0) {
    callsUntilFullCount = CALLS_PER_FULL_COUNT - 1;
    lastResidentBytes = residentBytes();
    lastDescriptors = countDescriptors();
  }
  return {
    __proto__: null,
    timers,
    handles,
    listeners: countListeners(),
    threads,
    children: processes,
    fds: lastDescriptors,
    directory: workingDirectory(),
  };
}

function above(now, before) {
  return now > before ? now - before : 0;
}

function putState() {
  let now;
  try {
    now = measure();
  } catch {
    // The plugin broke what is measured with. Say so: it ends the use of this process.
    now = { __proto__: null, ...baseline };
    abandoned = true;
  }
  putField('state');
  putByte(0x8a);
  putCount('timers', above(now.timers, baseline.timers));
  putCount('handles', above(now.handles, baseline.handles));
  putCount('listeners', above(now.listeners, baseline.listeners));
  putCount('threads', above(now.threads, baseline.threads));
  putCount('children', above(now.children, baseline.children));
  putCount('fds', above(now.fds, baseline.fds + SPARE_DESCRIPTORS));
  putCount('rss_bytes', lastResidentBytes);
  putCount('env_changed', environmentWritten ? 1 : 0);
  putCount('cwd_changed', now.directory === baseline.directory ? 0 : 1);
  putCount('builtins_changed', abandoned || builtinsChanged() ? 1 : 0);
}

// ------------------------------------------------------------------ logs

/** Replace process.stdout and process.stderr by writers that finish before they return. */
function replaceLogStreams() {
  const replace = (name, fd) => {
    let stream = null;
    defineProperty(process, name, {
      __proto__: null,
      configurable: true,
      enumerable: true,
      get() {
        if (stream !== null) return stream;
        const { Writable } = requireOf('stream');
        stream = new Writable({
          decodeStrings: true,
          write(chunk, encoding, done) {
            try {
              writeAll(fd, chunk, 0, chunk.length);
            } catch {
              // A closed log loses text; it must not fail the handler.
            }
            done();
          },
        });
        stream.fd = fd;
        stream._type = 'pipe';
        stream._isStdio = true;
        stream.destroySoon = stream.destroy;
        stream._destroy = (error, done) => done(error);
        return stream;
      },
    });
  };
  replace('stdout', 1);
  replace('stderr', 2);
}

// ------------------------------------------------------------------ requests

let input = allocUnsafeSlow(FIRST_BUFFER_BYTES);
let inputSize = FIRST_BUFFER_BYTES;
let inputStart = 0;
let inputEnd = 0;

function fill(bytes) {
  while (inputEnd - inputStart < bytes) {
    let count = 0;
    try {
      count = readSync(REQUESTS_FD, input, inputEnd, inputSize - inputEnd, null);
    } catch (error) {
      if (error.code === 'EAGAIN' || error.code === 'EINTR') {
        waitOn(pauseCell, 0, 0, 1);
        continue;
      }
      exitNow(0);
    }
    if (count === 0) exitNow(0); // The supervisor closed the pipe.
    inputEnd += count;
  }
}

function makeRoom(bytes) {
  if (inputStart > 0) {
    copyWithin(input, 0, inputStart, inputEnd);
    inputEnd -= inputStart;
    inputStart = 0;
  }
  if (bytes <= inputSize) return;
  const bigger = allocUnsafeSlow(bytes);
  setBytes(bigger, subarray(input, 0, inputEnd), 0);
  input = bigger;
  inputSize = bytes;
}

function readRequest() {
  if (inputSize > KEPT_BUFFER_BYTES && inputStart === inputEnd) {
    input = allocUnsafeSlow(FIRST_BUFFER_BYTES);
    inputSize = FIRST_BUFFER_BYTES;
  }
  if (inputStart === inputEnd) inputStart = inputEnd = 0;
  if (inputSize - inputStart < 4) makeRoom(4);
  fill(4);
  const length = frameLength(input, inputStart);
  if (inputStart + 4 + length > inputSize) makeRoom(4 + length);
  fill(4 + length);
  const from = inputStart + 4;
  inputStart = from + length;
  return decodeFrame(input, from, inputStart);
}

function frameLength(bytes, from) {
  const length =
    bytes[from] * 0x1000000 + ((bytes[from + 1] << 16) | (bytes[from + 2] << 8) | bytes[from + 3]);
  if (length === 0 || length > MAX_REQUEST_BYTES) die('a frame of ' + length + ' bytes');
  return length;
}

// ------------------------------------------------------------------ control

let controlRest = null;

/** Begin to read fd 5. The open handle also keeps the loop alive while a handler waits. */
function openControl() {
  if (controlSocket !== null) return;
  const { Socket } = requireOf('net');
  controlSocket = new Socket({ fd: CONTROL_FD, readable: true, writable: false });
  controlSocket.on('data', receiveControl);
  controlSocket.on('end', () => exitNow(0));
  controlSocket.on('error', () => exitNow(0));
}

function receiveControl(chunk) {
  let bytes = chunk;
  if (controlRest !== null) {
    bytes = allocUnsafeSlow(controlRest.length + chunk.length);
    setBytes(bytes, controlRest, 0);
    setBytes(bytes, chunk, controlRest.length);
  }
  let from = 0;
  const end = bytes.length;
  while (end - from >= 4) {
    const length = frameLength(bytes, from);
    if (end - from < 4 + length) break;
    handleControl(decodeFrame(bytes, from + 4, from + 4 + length));
    from += 4 + length;
  }
  controlRest = from === end ? null : subarray(bytes, from, end);
}

function handleControl(message) {
  // A late frame for a finished call is normal: it crossed the result.
  if (message.id !== callId) return;
  if (message.t === 'reply') {
    takeReply(message);
    return;
  }
  if (message.t !== 'abort' || settled || abortReason !== null) return;
  abortReason = message.reason;
  const unanswered = pendingRequests;
  pendingRequests = { __proto__: null };
  const rids = objectKeys(unanswered);
  for (let i = 0; i < rids.length; i++) unanswered[rids[i]].fail(abortError());
  if (controller !== null) abort(controller, abortError());
}

function abortError() {
  const error = new ErrorOf(abortReason);
  defineProperty(error, 'name', dataProperty('AbortError'));
  defineProperty(error, 'code', dataProperty('ABORT_ERR'));
  return error;
}

// ------------------------------------------------------------------ requests

const MAX_REQUEST_VALUE_BYTES = 1024 * 1024;

/** True while a value of the plugin is encoded: reading it may run code of the plugin. */
let encoding = false;

/** Requests of the running call that have no answer yet, by rid. */
let pendingRequests = { __proto__: null };
let lastRid = 0;

/**
 * Ask the supervisor for something. It alone decides, by the call that the frame is for.
 *
 * `prepare` reads what the plugin gave and returns what writes the params; that must meet no
 * code of the plugin, since `out` is in use. What is thrown in here rejects the promise; an
 * async function would hand it on through Promise.prototype.then, which is the plugin's.
 */
function ask(id, method, prepare, options, errorName = 'VariableError') {
  return new PromiseOf((resolve, reject) => {
    if (encoding) {
      reject(requestError(errorName, 'ended', 'a getter can ask for nothing'));
      return;
    }
    const putParams = prepare();
    const signal = options === undefined || options === null ? undefined : options.signal;
    if (signal !== undefined && signal !== null && isAborted(signal)) {
      reject(abortCause(signal));
      return;
    }
    if (id !== callId) {
      reject(requestError(errorName, 'ended', 'the call has ended'));
      return;
    }
    if (abortReason !== null) {
      reject(abortError());
      return;
    }
    const rid = ++lastRid;
    const isCheck = method === 'vars.validate_env_refs';
    const request = { __proto__: null, answer: resolve, fail: reject, errorName, isCheck };
    if (signal !== undefined && signal !== null) {
      const give = () => {
        delete pendingRequests[rid];
        reject(abortCause(signal));
      };
      addListener(signal, 'abort', give, { __proto__: null, once: true });
      request.answer = (value) => {
        removeListener(signal, 'abort', give);
        resolve(value);
      };
      request.fail = (error) => {
        removeListener(signal, 'abort', give);
        reject(error);
      };
    }
    beginFrame(5, 'request');
    putCount('id', id);
    putCount('rid', rid);
    putField('method');
    putText(method, 0);
    putField('params');
    putParams();
    pendingRequests[rid] = request;
    sendFrame();
    openControl();
  });
}

function takeReply(message) {
  const request = pendingRequests[message.rid];
  if (request === undefined) return; // Its signal was aborted.
  delete pendingRequests[message.rid];
  // A check that found nothing answers with nothing; a panel without data is null.
  if (message.ok) request.answer(request.isCheck ? undefined : message.value);
  else request.fail(requestError(request.errorName, message.error.code, message.error.message));
}

function requestError(name, code, message) {
  const error = new ErrorOf(message);
  defineProperty(error, 'name', dataProperty(name));
  defineProperty(error, 'code', dataProperty(code));
  return error;
}

function checkText(text, what) {
  if (typeof text !== 'string' || !isWellFormed(text)) {
    throw new TypeErrorOf(what + ' must be a string of whole characters');
  }
  return text;
}

/** Read each property once, before the frame is begun: a getter may ask for something too. */
function readReferences(refs) {
  if (typeof refs !== 'object' || refs === null || isArray(refs)) {
    throw new TypeErrorOf('refs must be an object of environment names to variable names');
  }
  const names = objectKeys(refs);
  const pairs = [];
  for (let i = 0; i < names.length; i++) {
    const variable = checkText(refs[names[i]], 'a variable name');
    defineProperty(pairs, i, dataProperty({
      __proto__: null, name: checkText(names[i], 'an environment name'), variable,
    }));
  }
  return pairs;
}

function prepareReferences(refs) {
  const pairs = readReferences(refs);
  return () => {
    putByte(0x81);
    putField('refs');
    putByte(0xdf);
    putUnsigned(pairs.length, 4);
    for (let i = 0; i < pairs.length; i++) {
      putText(pairs[i].name, 0);
      putText(pairs[i].variable, 0);
    }
  };
}

function prepareName(name) {
  checkText(name, 'the name');
  return () => {
    putByte(0x81);
    putField('name');
    putText(name, 0);
  };
}

function makeVariables(id) {
  return freeze({
    __proto__: null,
    list: () => ask(id, 'vars.list', () => () => putByte(0x80), undefined),
    read: (name, options) => ask(id, 'vars.read', () => prepareName(name), options),
    validateEnvRefs: (refs) =>
      ask(id, 'vars.validate_env_refs', () => prepareReferences(refs), undefined),
    resolveEnv: (refs, options) =>
      ask(id, 'vars.resolve_env', () => prepareReferences(refs), options),
  });
}

// ------------------------------------------------------------------ panels and questions

/** Encode a value of the plugin by itself: no frame may be under way while it is read. */
function encodeAlone(value, errorName) {
  at = 0;
  encoding = true;
  let problem;
  try {
    problem = putPluginValue(value, MAX_REQUEST_VALUE_BYTES);
  } finally {
    encoding = false;
  }
  if (problem !== null) {
    const code = problem.kind === 'too_large' ? 'panel_too_large' : 'panel_invalid';
    throw requestError(errorName, code, problem.message);
  }
  const bytes = allocUnsafeSlow(at);
  setBytes(bytes, subarray(out, 0, at), 0);
  return { __proto__: null, bytes, count: at };
}

function putEncoded(encoded) {
  if (at + encoded.count > outSize) grow(encoded.count);
  setBytes(out, encoded.bytes, at);
  at += encoded.count;
}

function prepareUpdate(panel, body) {
  checkText(panel, 'the panel');
  const encoded = encodeAlone(body, 'PanelError');
  return () => {
    putByte(0x82);
    putField('panel');
    putText(panel, 0);
    putField('body');
    putEncoded(encoded);
  };
}

function preparePanel(panel) {
  checkText(panel, 'the panel');
  return () => {
    putByte(0x81);
    putField('panel');
    putText(panel, 0);
  };
}

function makePanels(id) {
  return freeze({
    __proto__: null,
    update: (panel, body) =>
      ask(id, 'panels.update', () => prepareUpdate(panel, body), undefined, 'PanelError'),
    get: (panel) => ask(id, 'panels.get', () => preparePanel(panel), undefined, 'PanelError'),
  });
}

function prepareQuestion(question) {
  const encoded = encodeAlone(question, 'InteractionError');
  return () => putEncoded(encoded);
}

function makeInteractions(id) {
  return freeze({
    __proto__: null,
    request: (question) =>
      ask(id, 'interactions.request', () => prepareQuestion(question), undefined,
        'InteractionError'),
  });
}

// ------------------------------------------------------------------ calls

const plugin = { __proto__: null, handler: null, validateArgs: null, describeEffects: null };
let callId = 0;
let resultBytes = 0;
let settled = false;
let outcome;
let outcomeThrew = false;
let turnPending = false;
let uncaught = 0;
let closingTurns = 0;
let controller = null;
let abortReason = null;

function currentSignal() {
  if (controller === null) {
    controller = new AbortControllerOf();
    if (abortReason !== null) abort(controller, abortError());
  }
  return signalOf(controller);
}

/** A signal costs 5 us and few handlers look at it, so it is made on the first look. */
function makeContext(message) {
  const id = message.id;
  let signal = null;
  let variables = null;
  let panels = null;
  let interactions = null;
  return freeze({
    __proto__: null,
    cwd: message.cwd,
    get signal() {
      if (signal === null) signal = id === callId ? currentSignal() : AbortSignal.abort();
      return signal;
    },
    get vars() {
      if (variables === null) variables = makeVariables(id);
      return variables;
    },
    get panels() {
      if (panels === null) panels = makePanels(id);
      return panels;
    },
    get interactions() {
      if (interactions === null) interactions = makeInteractions(id);
      return interactions;
    },
    maxOutputBytes: message.max_output_bytes,
    toolCallId: message.tool_call_id,
  });
}

async function runHandler(id, args, context) {
  let value;
  let threw = false;
  try {
    value = await apply(plugin.handler, undefined, [args, context]);
  } catch (error) {
    value = error;
    threw = true;
  }
  settle(id, value, threw);
}

function settle(id, value, threw) {
  if (id !== callId || settled) return;
  settled = true;
  outcome = value;
  outcomeThrew = threw;
  scheduleTurn();
}

function scheduleTurn() {
  if (turnPending) return;
  turnPending = true;
  setImmediateOf(turn);
}

function turn() {
  turnPending = false;
  if (callId === 0) return;
  try {
    if (settled) {
      if (closingTurns < MAX_CLOSING_TURNS && hasOpenHandles()) {
        closingTurns++;
        scheduleTurn();
        return;
      }
      finishCall();
      serve();
    } else {
      openControl();
    }
  } catch (error) {
    // Of this file, or of Node itself after the plugin broke it: not the plugin's to handle.
    die('cannot go on: ' + describeThrown('threw', error, 0).message);
  }
}

function beginCall(message) {
  callId = message.id;
  pendingRequests = { __proto__: null };
  resultBytes = message.result_bytes;
  settled = false;
  uncaught = 0;
  closingTurns = 0;
  controller = null;
  abortReason = null;
  runHandler(callId, message.args, makeContext(message));
  scheduleTurn();
}

function finishCall() {
  const id = callId;
  const value = outcome;
  const threw = outcomeThrew;
  outcome = undefined;
  callId = 0;
  controller = null;
  if (threw) {
    sendFailure(id, describeThrown('threw', value, MAX_CAUSES));
    return;
  }
  beginFrame(4, 'result');
  putCount('id', id);
  putField('value');
  const problem = putPluginValue(value, resultBytes);
  if (problem !== null) {
    sendFailure(id, problem);
    return;
  }
  putState();
  sendFrame();
}

function sendFailure(id, error) {
  beginFrame(4, 'failed');
  putCount('id', id);
  putField('error');
  putError(error);
  putState();
  sendFrame();
}

/** What no `catch` of the plugin caught belongs to the call that is running. */
function onUncaught(error) {
  if (loading) {
    sendLoadFailed(describeThrown('import_failed', error, MAX_CAUSES));
    return;
  }
  abandoned = true;
  if (++uncaught > MAX_UNCAUGHT) die('the event loop fails over and over');
  // Also over a result that is settled and not yet sent.
  settled = false;
  settle(callId, error, true);
}

// ------------------------------------------------------------------ descriptors

function describe(message) {
  const fn = plugin[message.fn];
  if (typeof fn !== 'function') {
    sendFailure(message.id, failure('threw', 'TypeError', 'the plugin exports no ' + message.fn, ''));
    return;
  }
  let value;
  try {
    const more = message.fn === 'describeEffects' ? freeze({ __proto__: null, cwd: message.cwd }) : undefined;
    value = apply(fn, undefined, more === undefined ? [message.args] : [message.args, more]);
    if (isThenable(value)) {
      const text = message.fn + ' returned a promise; it must be synchronous';
      sendFailure(message.id, failure('not_synchronous', 'NotSynchronous', text, ''));
      return;
    }
  } catch (error) {
    sendFailure(message.id, describeThrown('threw', error, MAX_CAUSES));
    return;
  }
  beginFrame(3, 'described');
  putCount('id', message.id);
  putField('value');
  if (value === undefined && message.fn === 'validateArgs') value = null;
  const problem = putPluginValue(value, MAX_DESCRIBED_BYTES);
  if (problem === null) sendFrame();
  else sendFailure(message.id, problem);
}

function isThenable(value) {
  if ((typeof value !== 'object' || value === null) && typeof value !== 'function') return false;
  return typeof value.then === 'function';
}

// ------------------------------------------------------------------ loading

let loading = false;
let loaded = false;
let keepAlive = null;

function load(message) {
  if (loaded || loading) die('a second load');
  loading = true;
  // A top-level await on nothing must run into the supervisor's limit, not end the process.
  keepAlive = setIntervalOf(() => {}, 0x7fffffff);
  importPlugin(message.entry);
}

async function importPlugin(entry) {
  let problem = null;
  try {
    const namespace = await import(pathToFileURL(entry).href);
    problem = takeExports(namespace);
  } catch (error) {
    problem = describeThrown('import_failed', error, MAX_CAUSES);
  }
  if (!loading) return;
  // The next turn: what the import left uncaught is then known too.
  setImmediateOf(() => {
    if (!loading) return;
    if (problem === null) sendLoaded();
    else sendLoadFailed(problem);
  });
}

function takeExports(namespace) {
  for (let i = 0; i < EXPORTS.length; i++) {
    const name = EXPORTS[i];
    const value = namespace[name];
    if (value === undefined) {
      if (name !== 'handler') continue;
      return failure('missing_handler', 'TypeError', 'the plugin exports no function named handler', '');
    }
    if (typeof value !== 'function') {
      const text = 'the export ' + name + ' is ' + (value === null ? 'null' : 'a ' + typeof value) + ', not a function';
      return failure('bad_export', 'TypeError', text, '');
    }
    plugin[name] = value;
  }
  return null;
}

const EXPORTS = freeze(['handler', 'validateArgs', 'describeEffects']);

function endLoading() {
  loading = false;
  clearIntervalOf(keepAlive);
}

function sendLoaded() {
  endLoading();
  loaded = true;
  takeBaseline();
  let count = 0;
  for (let i = 0; i < EXPORTS.length; i++) if (plugin[EXPORTS[i]] !== null) count++;
  beginFrame(2, 'loaded');
  putField('exports');
  putByte(0x90 | count);
  for (let i = 0; i < EXPORTS.length; i++) if (plugin[EXPORTS[i]] !== null) putText(EXPORTS[i], 0);
  sendFrame();
  serve();
}

function sendLoadFailed(error) {
  endLoading();
  beginFrame(2, 'load_failed');
  putField('error');
  putError(error);
  sendFrame();
  setImmediateOf(serve);
}

function takeBaseline() {
  environmentWritten = false;
  // A spare has counted before the import.
  callsUntilFullCount = 0;
  baseline = measure();
  callsUntilFullCount = 0;
}

// ------------------------------------------------------------------ the loop

/** Handle requests until one of them needs the event loop. */
function serve() {
  for (;;) {
    const message = readRequest();
    switch (message.t) {
      case 'call':
        if (!loaded) die('a call before load');
        beginCall(message);
        return;
      case 'describe':
        if (!loaded) die('a describe before load');
        describe(message);
        break;
      case 'ping':
        if (!loaded) {
          warm(message.id);
          return;
        }
        pong(message.id);
        break;
      case 'load':
        load(message);
        return;
      case 'close':
        exitNow(0);
        break;
      default:
        die('an unknown message');
    }
  }
}

function pong(id) {
  beginFrame(2, 'pong');
  putCount('id', id);
  sendFrame();
}

/** A ping before load readies a spare: loader, compiler and file threads start only once. */
async function warm(id) {
  await import('data:text/javascript,export const handler = async () => 1');
  await fs.promises.readFile(__filename);
  rehearse();
  pong(id);
  setImmediateOf(serve);
}

/** Have V8 compile what a call runs through: functions are compiled at their first use. */
function rehearse() {
  beginFrame(2, 'pong');
  putField('value');
  putPluginValue({ list: [1, -1, 1.5, 70000, true, null], text: 'x'.repeat(100) }, 1000);
  decodeFrame(out, 4, at);
  baseline = measure();
  makeContext({ __proto__: null, id: 0, cwd: '/', max_output_bytes: 0, tool_call_id: '' });
  beginFrame(2, 'pong');
  putState();
}

function start() {
  replaceLogStreams();
  watchEnvironment();
  watchThreadsAndChildren();
  watchUnrefedTimers();
  builtins = readBuiltins();
  processOf.on('uncaughtException', onUncaught);
  beginFrame(5, 'ready');
  putCount('version', PROTOCOL_VERSION);
  putField('runtime');
  putText('node', 0);
  putField('runtime_version');
  putText(processOf.version, 0);
  putCount('pid', processOf.pid);
  sendFrame();
  serve();
}

start();
