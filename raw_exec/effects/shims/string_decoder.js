import { Buffer } from "raw:buffer";

// Holds back the bytes of a character that is not complete yet.
class StringDecoder {
  #pending = Buffer.alloc(0);
  constructor(encoding = "utf8") {
    if (!Buffer.isEncoding(encoding)) throw new TypeError("Unknown encoding: " + encoding);
    this.encoding = encoding.toLowerCase() === "utf-8" ? "utf8" : encoding.toLowerCase();
  }
  write(chunk) {
    if (typeof chunk === "string") return chunk;
    const all = Buffer.concat([this.#pending, Buffer.from(chunk)]);
    let end = all.length;
    if (this.encoding === "utf8") {
      for (let back = 1; back <= Math.min(3, all.length); back++) {
        const byte = all[all.length - back];
        if ((byte & 0xc0) === 0x80) continue;
        const need = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc0 ? 2 : 1;
        if (need > back) end = all.length - back;
        break;
      }
    }
    this.#pending = all.subarray(end);
    return all.subarray(0, end).toString(this.encoding);
  }
  end(chunk) {
    const text = chunk === undefined ? "" : this.write(chunk);
    const rest = this.#pending.toString(this.encoding);
    this.#pending = Buffer.alloc(0);
    return text + rest;
  }
}

const shim = { StringDecoder };

export { StringDecoder, shim as default };
