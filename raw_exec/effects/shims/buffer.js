import { decodeUtf8, encodeUtf8, utf8Length, viewOf } from "raw:encoding";

const ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

function encodingOf(name) {
  const wanted = name === undefined || name === null || name === "" ? "utf8" : String(name).toLowerCase();
  switch (wanted) {
    case "utf8": case "utf-8": return "utf8";
    case "hex": case "base64": case "base64url": case "ascii": return wanted;
    case "latin1": case "binary": return "latin1";
    case "ucs2": case "ucs-2": case "utf16le": case "utf-16le": return "utf16le";
    default: return undefined;
  }
}

function needEncoding(name) {
  const encoding = encodingOf(name);
  if (encoding === undefined) {
    const error = new TypeError("Unknown encoding: " + name);
    error.code = "ERR_UNKNOWN_ENCODING";
    throw error;
  }
  return encoding;
}

function fromBase64(text) {
  const out = [];
  let bits = 0, count = 0;
  for (let i = 0; i < text.length; i++) {
    let char = text[i];
    if (char === "=") break;
    if (char === "-") char = "+";
    if (char === "_") char = "/";
    const value = ALPHABET.indexOf(char);
    if (value < 0) continue;
    bits = bits << 6 | value;
    count += 6;
    if (count >= 8) { count -= 8; out.push(bits >> count & 255); bits &= (1 << count) - 1; }
  }
  return Uint8Array.from(out);
}

function toBase64(bytes, url) {
  let out = "";
  for (let i = 0; i < bytes.length; i += 3) {
    const left = bytes.length - i;
    const word = bytes[i] << 16 | (left > 1 ? bytes[i + 1] << 8 : 0) | (left > 2 ? bytes[i + 2] : 0);
    out += ALPHABET[word >> 18] + ALPHABET[word >> 12 & 63];
    out += left > 1 ? ALPHABET[word >> 6 & 63] : "=";
    out += left > 2 ? ALPHABET[word & 63] : "=";
  }
  return url ? out.replace(/\+/g, "-").replace(/\//g, "_").replace(/=+$/, "") : out;
}

function bytesOf(text, encoding) {
  switch (encoding) {
    case "utf8": return encodeUtf8(text);
    case "base64": case "base64url": return fromBase64(text);
    case "hex": {
      const out = [];
      for (let i = 0; i + 1 < text.length; i += 2) {
        const pair = text.slice(i, i + 2);
        if (!/^[0-9a-fA-F]{2}$/.test(pair)) break;
        out.push(parseInt(pair, 16));
      }
      return Uint8Array.from(out);
    }
    case "utf16le": {
      const out = new Uint8Array(text.length * 2);
      for (let i = 0; i < text.length; i++) {
        const unit = text.charCodeAt(i);
        out[2 * i] = unit & 255;
        out[2 * i + 1] = unit >> 8;
      }
      return out;
    }
    default: {
      const out = new Uint8Array(text.length);
      for (let i = 0; i < text.length; i++) out[i] = text.charCodeAt(i) & 255;
      return out;
    }
  }
}

function textOf(bytes, encoding) {
  let out = "";
  switch (encoding) {
    case "utf8": return decodeUtf8(bytes, false);
    case "base64": return toBase64(bytes, false);
    case "base64url": return toBase64(bytes, true);
    case "hex":
      for (let i = 0; i < bytes.length; i++) out += (bytes[i] < 16 ? "0" : "") + bytes[i].toString(16);
      return out;
    case "utf16le":
      for (let i = 0; i + 1 < bytes.length; i += 2) out += String.fromCharCode(bytes[i] | bytes[i + 1] << 8);
      return out;
    default: {
      const mask = encoding === "ascii" ? 127 : 255;
      for (let i = 0; i < bytes.length; i++) out += String.fromCharCode(bytes[i] & mask);
      return out;
    }
  }
}

function wrap(bytes) {
  return Object.setPrototypeOf(bytes, Buffer.prototype);
}

function badArgument(name, value) {
  const error = new TypeError('The "' + name + '" argument has the wrong type: ' + typeof value);
  error.code = "ERR_INVALID_ARG_TYPE";
  return error;
}

class Buffer extends Uint8Array {
  static poolSize = 8192;

  static from(value, encodingOrOffset, length) {
    if (typeof value === "string") return wrap(bytesOf(value, needEncoding(encodingOrOffset)));
    if (value instanceof ArrayBuffer) return wrap(new Uint8Array(value, encodingOrOffset, length));
    if (ArrayBuffer.isView(value) || Array.isArray(value)) return wrap(Uint8Array.from(value));
    if (value !== null && typeof value === "object") {
      if (value.type === "Buffer" && Array.isArray(value.data)) return wrap(Uint8Array.from(value.data));
      if (typeof value.length === "number") return wrap(Uint8Array.from(value));
      const primitive = value.valueOf?.();
      if (primitive !== value && primitive !== null && primitive !== undefined) {
        return Buffer.from(primitive, encodingOrOffset, length);
      }
    }
    throw badArgument("value", value);
  }

  static alloc(size, fill, encoding) {
    const out = wrap(new Uint8Array(size));
    return fill === undefined ? out : out.fill(fill, encoding);
  }
  static allocUnsafe(size) { return Buffer.alloc(size); }
  static allocUnsafeSlow(size) { return Buffer.alloc(size); }
  static isBuffer(value) { return value instanceof Buffer; }
  static isEncoding(name) { return typeof name === "string" && name !== "" && encodingOf(name) !== undefined; }

  static byteLength(value, encoding) {
    if (typeof value !== "string") {
      if (ArrayBuffer.isView(value) || value instanceof ArrayBuffer) return value.byteLength;
      throw badArgument("string", value);
    }
    const kind = encodingOf(encoding) ?? "utf8";
    if (kind === "utf8") return utf8Length(value);
    if (kind === "utf16le") return value.length * 2;
    if (kind === "hex") return value.length >>> 1;
    if (kind === "base64" || kind === "base64url") {
      let end = value.length;
      if (value.charCodeAt(end - 1) === 61) end--;
      if (end > 1 && value.charCodeAt(end - 1) === 61) end--;
      return end * 3 >>> 2;
    }
    return value.length;
  }

  static concat(list, total) {
    if (!Array.isArray(list)) throw badArgument("list", list);
    const size = total ?? list.reduce((sum, item) => sum + item.length, 0);
    const out = Buffer.alloc(size);
    let at = 0;
    for (const item of list) {
      const part = at + item.length > size ? item.subarray(0, size - at) : item;
      out.set(part, at);
      at += part.length;
    }
    return out;
  }

  static compare(a, b) {
    const shared = Math.min(a.length, b.length);
    for (let i = 0; i < shared; i++) if (a[i] !== b[i]) return a[i] < b[i] ? -1 : 1;
    return a.length === b.length ? 0 : a.length < b.length ? -1 : 1;
  }

  get parent() { return this.buffer; }
  get offset() { return this.byteOffset; }
  toString(encoding, start = 0, end = this.length) {
    return textOf(viewOf(this).subarray(start, end), needEncoding(encoding));
  }
  toJSON() { return { type: "Buffer", data: Array.from(this) }; }
  equals(other) { return Buffer.compare(this, other) === 0; }
  compare(other) { return Buffer.compare(this, other); }
  subarray(start, end) { return wrap(viewOf(this).subarray(start, end)); }
  slice(start, end) { return this.subarray(start, end); }

  write(text, offset = 0, length = this.length - offset, encoding = "utf8") {
    if (typeof offset === "string") [encoding, offset, length] = [offset, 0, this.length];
    if (typeof length === "string") [encoding, length] = [length, this.length - offset];
    const bytes = bytesOf(text, needEncoding(encoding)).subarray(0, Math.min(length, this.length - offset));
    this.set(bytes, offset);
    return bytes.length;
  }

  copy(target, targetStart = 0, start = 0, end = this.length) {
    const part = viewOf(this).subarray(start, Math.min(end, start + target.length - targetStart));
    target.set(part, targetStart);
    return part.length;
  }

  fill(value, start, end, encoding) {
    if (typeof start === "string") [encoding, start] = [start, undefined];
    if (typeof value !== "string") return super.fill(value, start, end);
    const bytes = bytesOf(value, needEncoding(encoding));
    const from = start ?? 0, to = end ?? this.length;
    for (let i = from; i < to; i++) this[i] = bytes.length ? bytes[(i - from) % bytes.length] : 0;
    return this;
  }

  indexOf(value, from = 0, encoding = "utf8") {
    const wanted = typeof value === "number" ? [value & 255]
      : typeof value === "string" ? bytesOf(value, needEncoding(encoding)) : value;
    for (let i = from < 0 ? Math.max(0, this.length + from) : from; i + wanted.length <= this.length; i++) {
      let same = 0;
      while (same < wanted.length && this[i + same] === wanted[same]) same++;
      if (same === wanted.length) return i;
    }
    return -1;
  }
  includes(value, from, encoding) { return this.indexOf(value, from, encoding) !== -1; }

  readUInt8(at = 0) { return dataView(this).getUint8(at); }
  readInt8(at = 0) { return dataView(this).getInt8(at); }
  readUInt16LE(at = 0) { return dataView(this).getUint16(at, true); }
  readUInt16BE(at = 0) { return dataView(this).getUint16(at); }
  readInt16LE(at = 0) { return dataView(this).getInt16(at, true); }
  readInt16BE(at = 0) { return dataView(this).getInt16(at); }
  readUInt32LE(at = 0) { return dataView(this).getUint32(at, true); }
  readUInt32BE(at = 0) { return dataView(this).getUint32(at); }
  readInt32LE(at = 0) { return dataView(this).getInt32(at, true); }
  readInt32BE(at = 0) { return dataView(this).getInt32(at); }
  readDoubleLE(at = 0) { return dataView(this).getFloat64(at, true); }
  readDoubleBE(at = 0) { return dataView(this).getFloat64(at); }
}

function dataView(buffer) {
  return new DataView(buffer.buffer, buffer.byteOffset, buffer.byteLength);
}

const constants = Object.freeze({ MAX_LENGTH: 2 ** 32, MAX_STRING_LENGTH: 2 ** 29 - 24 });
const kMaxLength = constants.MAX_LENGTH;
const { atob, btoa } = globalThis;
const isUtf8 = (input) => { try { decodeUtf8(viewOf(input), true); return true; } catch { return false; } };
const isAscii = (input) => viewOf(input).every((byte) => byte < 128);
const shim = { Buffer, constants, kMaxLength, atob, btoa, isUtf8, isAscii };

export { Buffer, atob, btoa, constants, isAscii, isUtf8, kMaxLength, shim as default };
