// UTF-8 in both directions, and the two Web classes on top of it.

function encodeUtf8(text) {
  const length = text.length;
  let size = 0;
  for (let i = 0; i < length; i++) {
    const unit = text.charCodeAt(i);
    if (unit < 0x80) size += 1;
    else if (unit < 0x800) size += 2;
    else if (isPair(text, i, unit)) { size += 4; i++; }
    else size += 3;
  }
  const out = new Uint8Array(size);
  let at = 0;
  for (let i = 0; i < length; i++) {
    let code = text.charCodeAt(i);
    if (code < 0x80) { out[at++] = code; continue; }
    if (code < 0x800) { out[at++] = 0xc0 | code >> 6; out[at++] = 0x80 | code & 63; continue; }
    if (isPair(text, i, code)) {
      code = 0x10000 + ((code & 0x3ff) << 10) + (text.charCodeAt(++i) & 0x3ff);
      out[at++] = 0xf0 | code >> 18;
      out[at++] = 0x80 | code >> 12 & 63;
    } else {
      if (code >= 0xd800 && code < 0xe000) code = 0xfffd;
      out[at++] = 0xe0 | code >> 12;
    }
    out[at++] = 0x80 | code >> 6 & 63;
    out[at++] = 0x80 | code & 63;
  }
  return out;
}

function isPair(text, i, unit) {
  if (unit < 0xd800 || unit >= 0xdc00 || i + 1 >= text.length) return false;
  const next = text.charCodeAt(i + 1);
  return next >= 0xdc00 && next < 0xe000;
}

function utf8Length(text) {
  const length = text.length;
  let size = length;
  for (let i = 0; i < length; i++) {
    const unit = text.charCodeAt(i);
    if (unit < 0x80) continue;
    if (unit < 0x800) size += 1;
    else if (isPair(text, i, unit)) { size += 2; i++; }
    else size += 2;
  }
  return size;
}

// WHATWG "UTF-8 decoder": one replacement character per maximal bad prefix.
function decodeUtf8(bytes, fatal) {
  let out = "";
  let units = [];
  let need = 0, seen = 0, code = 0, low = 0x80, high = 0xbf;
  const bad = () => {
    if (fatal) {
      const error = new TypeError("The encoded data was not valid for encoding utf-8");
      error.code = "ERR_ENCODING_INVALID_ENCODED_DATA";
      throw error;
    }
    units.push(0xfffd);
  };
  for (let i = 0; i < bytes.length; i++) {
    const byte = bytes[i];
    if (units.length > 4096) { out += String.fromCharCode.apply(null, units); units = []; }
    if (need === 0) {
      if (byte < 0x80) units.push(byte);
      else if (byte >= 0xc2 && byte <= 0xdf) { need = 1; code = byte & 31; }
      else if (byte >= 0xe0 && byte <= 0xef) {
        need = 2; code = byte & 15;
        if (byte === 0xe0) low = 0xa0;
        if (byte === 0xed) high = 0x9f;
      } else if (byte >= 0xf0 && byte <= 0xf4) {
        need = 3; code = byte & 7;
        if (byte === 0xf0) low = 0x90;
        if (byte === 0xf4) high = 0x8f;
      } else bad();
      continue;
    }
    if (byte < low || byte > high) {
      need = seen = 0; low = 0x80; high = 0xbf;
      bad();
      i--;
      continue;
    }
    low = 0x80; high = 0xbf;
    code = code << 6 | byte & 63;
    if (++seen < need) continue;
    if (code > 0xffff) units.push(0xd7c0 + (code >> 10), 0xdc00 + (code & 0x3ff));
    else units.push(code);
    need = seen = 0;
  }
  if (need) bad();
  return out + String.fromCharCode.apply(null, units);
}

class TextEncoder {
  get encoding() { return "utf-8"; }
  encode(text = "") { return encodeUtf8(String(text)); }
  encodeInto(text, target) {
    let read = 0, written = 0;
    for (const char of String(text)) {
      const bytes = encodeUtf8(char);
      if (written + bytes.length > target.length) break;
      target.set(bytes, written);
      written += bytes.length;
      read += char.length;
    }
    return { read, written };
  }
}

class TextDecoder {
  #fatal; #ignoreBOM;
  constructor(label = "utf-8", options = {}) {
    const wanted = String(label).trim().toLowerCase();
    if (wanted !== "utf-8" && wanted !== "utf8" && wanted !== "unicode-1-1-utf-8") {
      throw new RangeError('The "' + label + '" encoding is not supported in a descriptor');
    }
    this.#fatal = Boolean(options?.fatal);
    this.#ignoreBOM = Boolean(options?.ignoreBOM);
  }
  get encoding() { return "utf-8"; }
  get fatal() { return this.#fatal; }
  get ignoreBOM() { return this.#ignoreBOM; }
  decode(input, options) {
    if (options?.stream) throw new RangeError("streaming decode is not supported in a descriptor");
    const text = input === undefined ? "" : decodeUtf8(viewOf(input), this.#fatal);
    return !this.#ignoreBOM && text.charCodeAt(0) === 0xfeff ? text.slice(1) : text;
  }
}

function viewOf(input) {
  if (input instanceof ArrayBuffer) return new Uint8Array(input);
  if (ArrayBuffer.isView(input)) return new Uint8Array(input.buffer, input.byteOffset, input.byteLength);
  throw new TypeError("expected an ArrayBuffer or a view of one");
}

export { TextDecoder, TextEncoder, decodeUtf8, encodeUtf8, utf8Length, viewOf };
