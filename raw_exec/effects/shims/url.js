// The WHATWG URL parser and node:url's pure functions. Host names must be ASCII: there
// is no IDNA table here, so others are refused instead of being got wrong.
import { decodeUtf8, encodeUtf8 } from "raw:encoding";
import { noCwd } from "raw:unavailable";

const PORTS = { "http:": "80", "https:": "443", "ws:": "80", "wss:": "443", "ftp:": "21", "file:": "" };
const isSpecial = (protocol) => Object.hasOwn(PORTS, protocol);

// Percent-encode sets, each on top of control characters and everything above "~".
const FRAGMENT = ' "<>`';
const QUERY = ' "#<>';
const SPECIAL_QUERY = QUERY + "'";
const PATH = QUERY + "?`{}";
const USERINFO = PATH + "/:;=@[\\]^|";

function percent(text, set) {
  let out = "";
  for (const char of text) {
    const code = char.codePointAt(0);
    if (code > 0x1f && code < 0x7f && !set.includes(char)) { out += char; continue; }
    for (const byte of encodeUtf8(char)) out += hex(byte);
  }
  return out;
}

const hex = (byte) => "%" + (byte < 16 ? "0" : "") + byte.toString(16).toUpperCase();

function unpercent(text) {
  if (!text.includes("%")) return text;
  const bytes = encodeUtf8(text);
  const out = [];
  for (let i = 0; i < bytes.length; i++) {
    const pair = bytes[i] === 37 && i + 2 < bytes.length ? String.fromCharCode(bytes[i + 1], bytes[i + 2]) : "";
    if (/^[0-9A-Fa-f]{2}$/.test(pair)) { out.push(parseInt(pair, 16)); i += 2; }
    else out.push(bytes[i]);
  }
  return decodeUtf8(out, false);
}

function invalid(input, base) {
  const error = new TypeError("Invalid URL");
  error.code = "ERR_INVALID_URL";
  error.input = input;
  if (base !== undefined) error.base = base;
  return error;
}

function parseIPv4(host) {
  const parts = host.split(".");
  if (parts[parts.length - 1] === "" && parts.length > 1) parts.pop();
  const last = parts[parts.length - 1];
  if (!/^\d+$/.test(last) && !/^0[xX][0-9a-fA-F]*$/.test(last)) return undefined; // a name
  if (parts.length > 4) return null;
  const numbers = [];
  for (const part of parts) {
    if (part === "") return null;
    let digits = part, radix = 10;
    if (/^0[xX]/.test(part)) { digits = part.slice(2); radix = 16; }
    else if (part.length > 1 && part[0] === "0") { digits = part.slice(1); radix = 8; }
    const allowed = radix === 16 ? /^[0-9a-fA-F]*$/ : radix === 8 ? /^[0-7]*$/ : /^\d*$/;
    if (!allowed.test(digits)) return null;
    numbers.push(digits === "" ? 0 : parseInt(digits, radix));
  }
  const tail = numbers.pop();
  if (numbers.some((number) => number > 255) || tail >= 256 ** (4 - numbers.length)) return null;
  const address = numbers.reduce((sum, number, i) => sum + number * 256 ** (3 - i), tail);
  return [24, 16, 8, 0].map((shift) => Math.floor(address / 2 ** shift) % 256).join(".");
}

function parseIPv6(text) {
  const halves = text.split("::");
  if (halves.length > 2) return null;
  const read = (half) => {
    if (half === "") return [];
    const pieces = [];
    const parts = half.split(":");
    for (let i = 0; i < parts.length; i++) {
      if (i === parts.length - 1 && parts[i].includes(".")) {
        if (!/^(?:(?:0|[1-9]\d{0,2})\.){3}(?:0|[1-9]\d{0,2})$/.test(parts[i])) return null;
        const bytes = parts[i].split(".").map(Number);
        if (bytes.some((byte) => byte > 255)) return null;
        pieces.push(bytes[0] * 256 + bytes[1], bytes[2] * 256 + bytes[3]);
      } else if (/^[0-9a-fA-F]{1,4}$/.test(parts[i])) pieces.push(parseInt(parts[i], 16));
      else return null;
    }
    return pieces;
  };
  const head = read(halves[0]), rest = halves.length === 2 ? read(halves[1]) : [];
  if (head === null || rest === null) return null;
  const missing = 8 - head.length - rest.length;
  if (halves.length === 2 ? missing < 1 : missing !== 0) return null;
  const all = [...head, ...new Array(missing).fill(0), ...rest];
  let best = { at: -1, length: 1 };
  for (let i = 0; i < 8; i++) {
    let end = i;
    while (end < 8 && all[end] === 0) end++;
    if (end - i > best.length) best = { at: i, length: end - i };
    if (end > i) i = end;
  }
  const show = (list) => list.map((piece) => piece.toString(16)).join(":");
  return best.at < 0 ? show(all) : show(all.slice(0, best.at)) + "::" + show(all.slice(best.at + best.length));
}

// Returns null for a host that is not valid.
function parseHost(text, special) {
  if (text.startsWith("[")) {
    const address = text.endsWith("]") ? parseIPv6(text.slice(1, -1)) : null;
    return address === null ? null : "[" + address + "]";
  }
  if (!special) {
    // eslint-disable-next-line no-control-regex
    return /[\u0000\t\n\r #/:<>?@[\\\]^|]/.test(text) ? null : percent(text, "");
  }
  const host = unpercent(text).toLowerCase();
  // eslint-disable-next-line no-control-regex
  if (/[^\u0000-\u007f]/.test(host) || /(?:^|\.)xn--/.test(host)) {
    throw new TypeError("internationalised host names are not supported in a descriptor");
  }
  // eslint-disable-next-line no-control-regex
  if (host === "" || /[\u0000-\u0020"#%/:<>?@[\\\]^`{|}\u007f]/.test(host)) return null;
  const address = parseIPv4(host);
  return address === undefined ? host : address;
}

const isDriveLetter = (text) => /^[A-Za-z][:|]$/.test(text);
const isDot = (part) => /^(?:\.|%2e)$/i.test(part);
const isDoubleDot = (part) => /^(?:\.|%2e){2}$/i.test(part);

function parsePath(text, record, base) {
  const special = isSpecial(record.protocol);
  const path = base;
  const parts = (special ? text.replace(/\\/g, "/") : text).split("/");
  parts.forEach((part, i) => {
    const isLast = i === parts.length - 1;
    if (isDoubleDot(part)) {
      if (!(record.protocol === "file:" && path.length === 1 && /^[A-Za-z]:$/.test(path[0]))) path.pop();
      if (isLast) path.push("");
    } else if (isDot(part)) {
      if (isLast) path.push("");
    } else {
      let piece = percent(part, PATH);
      if (record.protocol === "file:" && path.length === 0 && isDriveLetter(piece)) piece = piece[0] + ":";
      path.push(piece);
    }
  });
  return path;
}

function splitTail(text) {
  const hash = text.indexOf("#");
  const fragment = hash < 0 ? null : text.slice(hash + 1);
  const before = hash < 0 ? text : text.slice(0, hash);
  const mark = before.indexOf("?");
  return { path: mark < 0 ? before : before.slice(0, mark), query: mark < 0 ? null : before.slice(mark + 1), fragment };
}

function parseAuthority(text, record, input) {
  const special = isSpecial(record.protocol);
  const at = text.lastIndexOf("@");
  if (at >= 0) {
    const credentials = text.slice(0, at);
    const colon = credentials.indexOf(":");
    record.username = percent(colon < 0 ? credentials : credentials.slice(0, colon), USERINFO);
    record.password = colon < 0 ? "" : percent(credentials.slice(colon + 1), USERINFO);
  }
  const rest = text.slice(at + 1);
  const match = /^(\[[^\]]*\]|[^:]*)(?::(.*))?$/s.exec(rest);
  if (match === null || (at >= 0 && match[1] === "") || (match[1] === "" && match[2] !== undefined)) throw invalid(input);
  if (match[1] === "" && special) throw invalid(input);
  record.host = match[1] === "" ? "" : parseHost(match[1], special);
  if (record.host === null) throw invalid(input);
  setPort(record, match[2] ?? "", input);
}

function setPort(record, digits, input) {
  if (!/^\d*$/.test(digits) || Number(digits) > 65535) throw invalid(input);
  const port = digits === "" ? "" : String(Number(digits));
  record.port = port === PORTS[record.protocol] ? "" : port;
}

function parse(input, base) {
  // eslint-disable-next-line no-control-regex
  const text = input.replace(/^[\u0000-\u0020]+|[\u0000-\u0020]+$/g, "").replace(/[\t\n\r]/g, "");
  const record = { protocol: "", username: "", password: "", host: null, port: "", path: [], opaque: null, query: null, fragment: null };
  const scheme = /^([A-Za-z][A-Za-z0-9+.-]*):/.exec(text);
  let rest;
  if (scheme) {
    record.protocol = scheme[1].toLowerCase() + ":";
    rest = text.slice(scheme[0].length);
    const relative = isSpecial(record.protocol) && base?.protocol === record.protocol && !/^[/\\]{2}/.test(rest);
    if (record.protocol === "file:") return parseFile(rest, record, base?.protocol === "file:" ? base : null, input);
    if (isSpecial(record.protocol)) {
      if (relative) return parseRelative(rest, record, base, input);
      return parseAfterSlashes(rest.replace(/^[/\\]*/, ""), record, input);
    }
    if (rest.startsWith("//")) return parseAfterSlashes(rest.slice(2), record, input);
    const tail = splitTail(rest);
    if (rest.startsWith("/")) record.path = parsePath(tail.path.slice(1), record, []);
    else record.opaque = percent(tail.path, "");
    return finish(record, tail);
  }
  if (!base || (base.opaque !== null && !text.startsWith("#"))) throw invalid(input);
  record.protocol = base.protocol;
  if (base.opaque !== null) return { ...base, fragment: percent(text.slice(1), FRAGMENT) };
  if (base.protocol === "file:") return parseFile(text, record, base, input);
  return parseRelative(text, record, base, input);
}

function finish(record, tail) {
  const set = isSpecial(record.protocol) ? SPECIAL_QUERY : QUERY;
  if (tail.query !== null) record.query = percent(tail.query, set);
  if (tail.fragment !== null) record.fragment = percent(tail.fragment, FRAGMENT);
  return record;
}

function parseAfterSlashes(text, record, input) {
  const end = text.search(isSpecial(record.protocol) ? /[/\\?#]/ : /[/?#]/);
  parseAuthority(end < 0 ? text : text.slice(0, end), record, input);
  const tail = splitTail(end < 0 ? "" : text.slice(end));
  if (tail.path !== "") record.path = parsePath(tail.path.slice(1), record, []);
  else if (isSpecial(record.protocol)) record.path = [""];
  return finish(record, tail);
}

function parseRelative(text, record, base, input) {
  const special = isSpecial(record.protocol);
  const slash = special ? /^[/\\]/ : /^\//;
  if (slash.test(text) && slash.test(text.slice(1))) {
    return parseAfterSlashes(special ? text.replace(/^[/\\]*/, "") : text.slice(2), record, input);
  }
  record.username = base.username;
  record.password = base.password;
  record.host = base.host;
  record.port = base.port;
  return resolveTail(text, record, base, slash);
}

function resolveTail(text, record, base, slash) {
  const tail = splitTail(text);
  if (slash.test(tail.path)) record.path = parsePath(tail.path.slice(1), record, []);
  else if (tail.path !== "") record.path = parsePath(tail.path, record, base.path.slice(0, -1));
  else {
    record.path = base.path.slice();
    if (tail.query === null) record.query = base.query;
  }
  return finish(record, tail);
}

function parseFile(text, record, base, input) {
  record.host = "";
  const slashes = /^[/\\]{2}/;
  if (slashes.test(text)) {
    const rest = text.slice(2);
    const end = rest.search(/[/\\?#]/);
    const authority = end < 0 ? rest : rest.slice(0, end);
    const isDrive = isDriveLetter(authority);
    const tail = splitTail(isDrive ? "/" + rest : end < 0 ? "" : rest.slice(end));
    if (!isDrive && authority !== "") {
      const host = parseHost(authority, true);
      if (host === null) throw invalid(input);
      record.host = host === "localhost" ? "" : host;
    }
    record.path = tail.path === "" ? [""] : parsePath(tail.path.slice(1), record, []);
    return finish(record, tail);
  }
  if (base !== null) {
    record.host = base.host;
    const hasDrive = /^[A-Za-z]:$/.test(base.path[0] ?? "");
    if (/^[/\\]/.test(text) && hasDrive && !/^[/\\][A-Za-z][:|](?:[/\\?#]|$)/.test(text)) {
      const tail = splitTail(text);
      record.path = parsePath(tail.path.slice(1), record, [base.path[0]]);
      return finish(record, tail);
    }
    return resolveTail(text, record, base, /^[/\\]/);
  }
  const tail = splitTail(text);
  record.path = parsePath(tail.path.replace(/^[/\\]/, ""), record, []);
  return finish(record, tail);
}

function pathOf(record) {
  if (record.opaque !== null) return record.opaque;
  const path = record.path.length ? "/" + record.path.join("/") : "";
  return record.host === null && path.startsWith("//") ? "/." + path : path;
}

const formEncode = (text) => {
  let out = "";
  for (const byte of encodeUtf8(text)) {
    const char = String.fromCharCode(byte);
    out += byte === 32 ? "+" : /[A-Za-z0-9*\-._]/.test(char) ? char : hex(byte);
  }
  return out;
};

class URLSearchParams {
  #pairs = [];
  #changed = () => {};

  constructor(init = "") {
    if (init !== null && typeof init === "object" && typeof init[Symbol.iterator] === "function") {
      for (const pair of init) {
        const [key, value, ...rest] = [...pair];
        if (value === undefined || rest.length) throw notPairs();
        this.#pairs.push([word(key), word(value)]);
      }
    } else if (init !== null && typeof init === "object") {
      for (const key of Object.keys(init)) this.#pairs.push([word(key), word(init[key])]);
    } else this.#parse(word(init).replace(/^\?/, ""));
  }

  static linked(query, changed) {
    const params = new URLSearchParams(query);
    params.#changed = changed;
    return params;
  }
  static reset(params, query) {
    params.#pairs = [];
    params.#parse(query);
  }

  #parse(text) {
    for (const pair of text.split("&")) {
      if (pair === "") continue;
      const cut = pair.indexOf("=");
      const read = (part) => unpercent(part.replace(/\+/g, " "));
      this.#pairs.push(cut < 0 ? [read(pair), ""] : [read(pair.slice(0, cut)), read(pair.slice(cut + 1))]);
    }
  }
  #update() { this.#changed(this.toString()); }

  get size() { return this.#pairs.length; }
  append(name, value) { this.#pairs.push([word(name), word(value)]); this.#update(); }
  delete(name, value) {
    this.#pairs = this.#pairs.filter(([key, item]) => key !== word(name) || (value !== undefined && item !== word(value)));
    this.#update();
  }
  get(name) { return this.#pairs.find(([key]) => key === word(name))?.[1] ?? null; }
  getAll(name) { return this.#pairs.filter(([key]) => key === word(name)).map(([, value]) => value); }
  has(name, value) {
    return this.#pairs.some(([key, item]) => key === word(name) && (value === undefined || item === word(value)));
  }
  set(name, value) {
    const at = this.#pairs.findIndex(([key]) => key === word(name));
    if (at < 0) this.#pairs.push([word(name), word(value)]);
    else {
      this.#pairs[at] = [word(name), word(value)];
      this.#pairs = this.#pairs.filter(([key], i) => i <= at || key !== word(name));
    }
    this.#update();
  }
  sort() { this.#pairs.sort(([a], [b]) => a < b ? -1 : a > b ? 1 : 0); this.#update(); }
  forEach(callback, self) { for (const [key, value] of this.#pairs) callback.call(self, value, key, this); }
  *entries() { yield* this.#pairs.map((pair) => [...pair]); }
  *keys() { for (const [key] of this.#pairs) yield key; }
  *values() { for (const [, value] of this.#pairs) yield value; }
  [Symbol.iterator]() { return this.entries(); }
  toString() { return this.#pairs.map(([key, value]) => formEncode(key) + "=" + formEncode(value)).join("&"); }
}

function notPairs() {
  const error = new TypeError("Each query pair must be an iterable [name, value] tuple");
  error.code = "ERR_INVALID_TUPLE";
  return error;
}

const word = (value) => String(value).toWellFormed();
const { linked, reset } = URLSearchParams;
delete URLSearchParams.linked;
delete URLSearchParams.reset;

class URL {
  #record;
  #params;

  constructor(input, base) {
    const text = word(input);
    let parent;
    if (base !== undefined) {
      try { parent = parse(word(base)); } catch { throw invalid(text, word(base)); }
    }
    this.#record = parse(text, parent);
  }
  static canParse(input, base) {
    try { return Boolean(new URL(input, base)); } catch { return false; }
  }
  static parse(input, base) {
    try { return new URL(input, base); } catch { return null; }
  }

  get href() {
    const r = this.#record;
    let out = r.protocol;
    if (r.host !== null) {
      out += "//";
      if (r.username || r.password) out += r.username + (r.password ? ":" + r.password : "") + "@";
      out += this.host;
    }
    out += pathOf(r);
    if (r.query !== null) out += "?" + r.query;
    if (r.fragment !== null) out += "#" + r.fragment;
    return out;
  }
  set href(value) { this.#record = parse(word(value)); this.#sync(); }
  get origin() {
    const r = this.#record;
    if (r.protocol === "blob:") { try { return new URL(pathOf(r)).origin; } catch { return "null"; } }
    return isSpecial(r.protocol) && r.protocol !== "file:" ? r.protocol + "//" + this.host : "null";
  }
  get protocol() { return this.#record.protocol; }
  set protocol(value) {
    const name = /^([A-Za-z][A-Za-z0-9+.-]*):?/.exec(word(value));
    if (!name) return;
    const next = name[1].toLowerCase() + ":";
    if (isSpecial(next) !== isSpecial(this.#record.protocol) || (next === "file:" && (this.#hasCredentials() || this.port))) return;
    if (this.#record.protocol === "file:" && !this.#record.host) return;
    this.#record.protocol = next;
    if (this.#record.port === PORTS[next]) this.#record.port = "";
  }
  #hasCredentials() { return Boolean(this.#record.username || this.#record.password); }
  #cannotHaveCredentials() { return !this.#record.host || this.#record.protocol === "file:"; }
  get username() { return this.#record.username; }
  set username(value) { if (!this.#cannotHaveCredentials()) this.#record.username = percent(word(value), USERINFO); }
  get password() { return this.#record.password; }
  set password(value) { if (!this.#cannotHaveCredentials()) this.#record.password = percent(word(value), USERINFO); }
  get host() { return this.#record.host === null ? "" : this.#record.host + (this.#record.port ? ":" + this.#record.port : ""); }
  set host(value) {
    const match = /^(\[[^\]]*\]|[^:/\\?#]*)(?::(\d*))?/.exec(word(value));
    this.hostname = match[1];
    if (match[2]) this.port = match[2];
  }
  get hostname() { return this.#record.host ?? ""; }
  set hostname(value) {
    if (this.#record.opaque !== null) return;
    const name = word(value).split(/[/\\?#]/)[0];
    const host = parseHost(name, isSpecial(this.#record.protocol));
    if (host !== null) this.#record.host = host;
  }
  get port() { return this.#record.port; }
  set port(value) {
    if (this.#cannotHaveCredentials()) return;
    const digits = /^\d*/.exec(word(value))[0];
    if (word(value) !== "" && digits === "") return;
    try { setPort(this.#record, digits, digits); } catch { /* stays as it was */ }
  }
  get pathname() { return pathOf(this.#record); }
  set pathname(value) {
    if (this.#record.opaque !== null) return;
    const text = word(value).replace(/[\t\n\r]/g, "").replace(/[?#]/g, (char) => hex(char.charCodeAt(0)));
    const slash = isSpecial(this.#record.protocol) ? /^[/\\]/ : /^\//;
    this.#record.path = parsePath(text.replace(slash, ""), this.#record, []);
  }
  get search() { return this.#record.query ? "?" + this.#record.query : ""; }
  set search(value) {
    const text = word(value).replace(/[\t\n\r]/g, "").replace(/^\?/, "");
    const set = isSpecial(this.#record.protocol) ? SPECIAL_QUERY : QUERY;
    this.#record.query = text === "" ? null : percent(text, set);
    this.#sync();
  }
  get searchParams() {
    this.#params ??= linked(this.#record.query ?? "", (query) => { this.#record.query = query === "" ? null : query; });
    return this.#params;
  }
  #sync() { if (this.#params) reset(this.#params, this.#record.query ?? ""); }
  get hash() { return this.#record.fragment ? "#" + this.#record.fragment : ""; }
  set hash(value) {
    const text = word(value).replace(/[\t\n\r]/g, "").replace(/^#/, "");
    this.#record.fragment = text === "" ? null : percent(text, FRAGMENT);
  }
  toString() { return this.href; }
  toJSON() { return this.href; }
}

function fileURLToPath(input) {
  const url = typeof input === "string" ? new URL(input) : input;
  if (url === null || typeof url !== "object" || url.protocol !== "file:") {
    const error = new TypeError("The URL must be of scheme file");
    error.code = "ERR_INVALID_URL_SCHEME";
    throw error;
  }
  if (url.hostname !== "") {
    const error = new TypeError('File URL host must be "localhost" or empty on linux');
    error.code = "ERR_INVALID_FILE_URL_HOST";
    throw error;
  }
  if (/%2f/i.test(url.pathname)) {
    const error = new TypeError("File URL path must not include encoded / characters");
    error.code = "ERR_INVALID_FILE_URL_PATH";
    throw error;
  }
  return decodeURIComponent(url.pathname);
}

function pathToFileURL(path) {
  let full = path.startsWith("/") ? path : noCwd() + "/" + path;
  const parts = [];
  for (const part of full.split("/")) {
    if (part === "..") parts.pop();
    else if (part !== "" && part !== ".") parts.push(part);
  }
  full = "/" + parts.join("/") + (path.endsWith("/") && parts.length ? "/" : "");
  const escapes = { "%": "%25", "\\": "%5C", "\n": "%0A", "\r": "%0D", "\t": "%09", "?": "%3F", "#": "%23", "[": "%5B", "]": "%5D", "^": "%5E", "|": "%7C", "~": "%7E" };
  return new URL("file://" + full.replace(/[%\\\n\r\t?#[\]^|~]/g, (char) => escapes[char]));
}

function urlToHttpOptions(url) {
  const { hash, hostname, href, pathname, port, protocol, search } = url;
  const options = { protocol, hostname: hostname.replace(/^\[|\]$/g, ""), hash, search, pathname, path: pathname + search, href };
  if (port !== "") options.port = Number(port);
  if (url.username || url.password) options.auth = decodeURIComponent(url.username) + ":" + decodeURIComponent(url.password);
  return options;
}

const format = (url) => url.href ?? String(url);
const shim = { URL, URLSearchParams, fileURLToPath, format, pathToFileURL, urlToHttpOptions };

export { URL, URLSearchParams, fileURLToPath, format, pathToFileURL, urlToHttpOptions, shim as default };
