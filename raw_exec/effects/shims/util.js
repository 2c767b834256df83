import { TextDecoder, TextEncoder } from "raw:encoding";
import types from "raw:util_types";
import unavailable from "raw:unavailable";

const customInspect = Symbol.for("nodejs.util.inspect.custom");
const customPromisify = Symbol.for("nodejs.util.promisify.custom");

const quote = (text) => {
  const mark = !text.includes("'") ? "'" : !text.includes('"') ? '"' : !text.includes("`") ? "`" : "'";
  const named = { "\n": "\\n", "\t": "\\t", "\r": "\\r", "\b": "\\b", "\f": "\\f", "\v": "\\v", "\\": "\\\\" };
  // eslint-disable-next-line no-control-regex
  const inner = text.replace(/[\u0000-\u001f\u007f-\u009f\\]/g, (char) =>
    named[char] ?? "\\x" + char.charCodeAt(0).toString(16).toUpperCase().padStart(2, "0"));
  return mark + (mark === "'" ? inner.replace(/'/g, "\\'") : inner) + mark;
};

const keyOf = (key) => typeof key === "symbol" ? "[" + key.toString() + "]"
  : /^[A-Za-z_$][\w$]*$/.test(key) ? key : quote(key);

function inspect(value, options) {
  const settings = { depth: 2, compact: 3, breakLength: 80, ...(typeof options === "object" ? options : {}) };
  return show(value, settings, 0, []);
}
inspect.custom = customInspect;
inspect.defaultOptions = {};

function show(value, settings, level, seen) {
  switch (typeof value) {
    case "string": return quote(value);
    case "number": return Object.is(value, -0) ? "-0" : String(value);
    case "bigint": return value + "n";
    case "undefined": case "boolean": return String(value);
    case "symbol": return value.toString();
  }
  if (value === null) return "null";
  if (seen.includes(value)) return "[Circular *1]";
  const custom = value[customInspect];
  if (typeof custom === "function" && custom !== inspect) {
    const left = settings.depth === null ? null : settings.depth - level;
    const shown = custom.call(value, left, settings, inspect);
    return typeof shown === "string" ? shown : show(shown, settings, level, seen);
  }
  if (typeof value === "function") {
    const isClass = /^class\b/.test(Function.prototype.toString.call(value));
    const name = value.name ? ": " + value.name : " (anonymous)";
    return isClass ? "[class " + (value.name || "(anonymous)") + "]" : "[Function" + name + "]";
  }
  if (types.isNativeError(value)) return value.stack ? value.name + ": " + value.message + "\n" + value.stack.trimEnd() : "[" + value + "]";
  if (types.isRegExp(value)) return String(value);
  if (types.isDate(value)) return Number.isNaN(value.getTime()) ? "Invalid Date" : value.toISOString();
  const name = value.constructor?.name;
  if (settings.depth !== null && level > settings.depth) {
    return Array.isArray(value) ? "[Array]" : "[" + (name || "Object: null prototype") + "]";
  }
  return showMembers(value, name, settings, level, [...seen, value]);
}

function showMembers(value, name, settings, level, seen) {
  const inner = (item) => show(item, settings, level + 1, seen);
  let prefix = "", brackets = ["{", "}"], members = [];
  if (Array.isArray(value) || types.isTypedArray(value)) {
    brackets = ["[", "]"];
    prefix = name === "Array" ? "" : name + "(" + value.length + ") ";
    for (let i = 0; i < Math.min(value.length, 100); i++) {
      members.push(i in value ? inner(value[i]) : "<1 empty item>");
    }
    if (value.length > 100) members.push("... " + (value.length - 100) + " more items");
  } else if (types.isMap(value)) {
    prefix = "Map(" + value.size + ") ";
    members = Array.from(value, ([key, item]) => inner(key) + " => " + inner(item));
  } else if (types.isSet(value)) {
    prefix = "Set(" + value.size + ") ";
    members = Array.from(value, inner);
  } else {
    if (name === undefined) prefix = "[Object: null prototype] ";
    else if (name !== "Object") prefix = name + " ";
  }
  if (!(Array.isArray(value) || types.isTypedArray(value))) {
    for (const key of Object.keys(value)) {
      const slot = Object.getOwnPropertyDescriptor(value, key);
      const shown = slot.get ? (slot.set ? "[Getter/Setter]" : "[Getter]") : slot.set ? "[Setter]" : inner(slot.value);
      members.push(keyOf(key) + ": " + shown);
    }
  }
  if (members.length === 0) return prefix + brackets[0] + brackets[1];
  const line = prefix + brackets[0] + " " + members.join(", ") + " " + brackets[1];
  if (line.length <= 72 && !line.includes("\n")) return line;
  const indent = "  ".repeat(level + 1);
  return prefix + brackets[0] + "\n" + indent + members.join(",\n" + indent) + "\n" + "  ".repeat(level) + brackets[1];
}

function format(first, ...rest) {
  if (typeof first !== "string") return [first, ...rest].map(plain).join(" ");
  let used = 0;
  const text = first.replace(/%[sdifjoOc%]/g, (mark) => {
    if (mark === "%%") return rest.length ? "%" : mark;
    if (used >= rest.length) return mark;
    const item = rest[used++];
    switch (mark) {
      case "%s": return typeof item === "string" ? item : typeof item === "bigint" ? item + "n"
        : typeof item === "object" && item !== null ? inspect(item, { depth: 0 }) : Object.is(item, -0) ? "-0" : String(item);
      case "%d": return typeof item === "bigint" ? item + "n" : typeof item === "symbol" || typeof item === "object" ? "NaN" : String(Number(item));
      case "%i": return typeof item === "symbol" || typeof item === "object" ? "NaN" : String(parseInt(item));
      case "%f": return typeof item === "symbol" ? "NaN" : String(parseFloat(item));
      case "%j": try { return JSON.stringify(item); } catch { return "[Circular]"; }
      case "%c": return "";
      default: return inspect(item, { depth: 4 });
    }
  });
  return [text, ...rest.slice(used).map(plain)].join(" ");
}

const plain = (value) => typeof value === "string" ? value : inspect(value);

function promisify(original) {
  if (typeof original !== "function") throw new TypeError('The "original" argument must be of type function');
  if (original[customPromisify]) return original[customPromisify];
  return function (...args) {
    return new Promise((resolve, reject) => {
      original.call(this, ...args, (error, value) => error ? reject(error) : resolve(value));
    });
  };
}
promisify.custom = customPromisify;

function inherits(constructor, superConstructor) {
  Object.defineProperty(constructor, "super_", { value: superConstructor, writable: true, configurable: true });
  Object.setPrototypeOf(constructor.prototype, superConstructor.prototype);
}

function isDeepStrictEqual(a, b, seen = []) {
  if (Object.is(a, b)) return true;
  if (a === null || b === null || typeof a !== "object" || typeof b !== "object") return false;
  if (Object.getPrototypeOf(a) !== Object.getPrototypeOf(b)) return false;
  if (seen.some(([left, right]) => left === a && right === b)) return true;
  const inner = [...seen, [a, b]];
  if (types.isDate(a) && a.getTime() !== b.getTime()) return false;
  if (types.isRegExp(a) && String(a) !== String(b)) return false;
  if (types.isNativeError(a) && (a.message !== b.message || a.name !== b.name)) return false;
  if (types.isMap(a)) {
    if (a.size !== b.size) return false;
    for (const [key, item] of a) if (!b.has(key) || !isDeepStrictEqual(item, b.get(key), inner)) return false;
  }
  if (types.isSet(a)) {
    if (a.size !== b.size) return false;
    for (const item of a) {
      if (!b.has(item) && ![...b].some((other) => isDeepStrictEqual(item, other, inner))) return false;
    }
  }
  const keys = Object.keys(a);
  if (keys.length !== Object.keys(b).length || a.length !== b.length) return false;
  return keys.every((key) => Object.hasOwn(b, key) && isDeepStrictEqual(a[key], b[key], inner));
}

const deprecate = (fn) => fn;
const debuglog = () => Object.assign(() => {}, { enabled: false });
const debug = debuglog;
const callbackify = unavailable("util.callbackify");
// eslint-disable-next-line no-control-regex
const stripVTControlCharacters = (text) => text.replace(/[\u001b\u009b][[\]()#;?]*(?:\d{1,4}(?:;\d{0,4})*)?[\dA-PR-TZcf-nq-uy=><~]/g, "");
const toUSVString = (text) => String(text).toWellFormed();
const { isArray } = Array;

const shim = {
  TextDecoder, TextEncoder, callbackify, debug, debuglog, deprecate, format, inherits, inspect, isArray,
  isDeepStrictEqual, promisify, stripVTControlCharacters, toUSVString, types,
};

export {
  TextDecoder, TextEncoder, callbackify, debug, debuglog, deprecate, format, inherits, inspect, isArray,
  isDeepStrictEqual, promisify, stripVTControlCharacters, toUSVString, types, shim as default
};
