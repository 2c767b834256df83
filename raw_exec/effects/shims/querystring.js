const escape = (text) => encodeURIComponent(String(text).toWellFormed());

function unescape(text) {
  try { return decodeURIComponent(text); } catch { return globalThis.unescape(text); }
}

const scalar = (value) => typeof value === "string" ? value
  : typeof value === "bigint" || typeof value === "boolean" || Number.isFinite(value) ? String(value) : "";

function stringify(object, separator = "&", equals = "=", options) {
  if (object === null || typeof object !== "object") return "";
  const encode = options?.encodeURIComponent ?? escape;
  const pairs = [];
  for (const key of Object.keys(object)) {
    const values = Array.isArray(object[key]) ? object[key] : [object[key]];
    for (const value of values) pairs.push(encode(key) + equals + encode(scalar(value)));
  }
  return pairs.join(separator);
}

function parse(text, separator = "&", equals = "=", options) {
  const out = Object.create(null);
  if (typeof text !== "string" || text === "") return out;
  const decode = options?.decodeURIComponent ?? unescape;
  const most = options?.maxKeys ?? 1000;
  let pairs = text.split(separator);
  if (most > 0) pairs = pairs.slice(0, most);
  for (const pair of pairs) {
    if (pair === "") continue;
    const cut = pair.indexOf(equals);
    const key = decode((cut < 0 ? pair : pair.slice(0, cut)).replace(/\+/g, " "));
    const value = cut < 0 ? "" : decode(pair.slice(cut + equals.length).replace(/\+/g, " "));
    if (!(key in out)) out[key] = value;
    else if (Array.isArray(out[key])) out[key].push(value);
    else out[key] = [out[key], value];
  }
  return out;
}

const encode = stringify;
const decode = parse;
const shim = { decode, encode, escape, parse, stringify, unescape };

export { decode, encode, escape, parse, stringify, unescape, shim as default };
