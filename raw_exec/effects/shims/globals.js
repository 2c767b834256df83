// What Node has globally, is no module of its own there, and this engine has not.
import unavailable from "raw:unavailable";

function structuredClone(value) {
  const seen = new Map();
  const copy = (item) => {
    if (typeof item === "function" || typeof item === "symbol") {
      throw new DOMException(String(item) + " could not be cloned.", "DataCloneError");
    }
    if (item === null || typeof item !== "object") return item;
    if (seen.has(item)) return seen.get(item);
    const keep = (made) => { seen.set(item, made); return made; };
    if (Array.isArray(item)) {
      const made = keep(new Array(item.length));
      for (const key of Object.keys(item)) made[key] = copy(item[key]);
      return made;
    }
    if (item instanceof Date) return keep(new Date(item.getTime()));
    if (item instanceof RegExp) return keep(new RegExp(item.source, item.flags));
    if (item instanceof ArrayBuffer) return keep(item.slice(0));
    if (ArrayBuffer.isView(item)) return keep(new (Object.getPrototypeOf(item).constructor)(item));
    if (item instanceof Map) {
      const made = keep(new Map());
      for (const [key, inner] of item) made.set(copy(key), copy(inner));
      return made;
    }
    if (item instanceof Set) {
      const made = keep(new Set());
      for (const inner of item) made.add(copy(inner));
      return made;
    }
    if (item instanceof Error) {
      const made = keep(new Error(item.message));
      made.name = item.name;
      return made;
    }
    const made = keep({});
    for (const key of Object.keys(item)) made[key] = copy(item[key]);
    return made;
  };
  return copy(value);
}

const nothing = () => {};
const console = {};
for (const name of ["assert", "clear", "count", "countReset", "debug", "dir", "dirxml", "error", "group",
  "groupCollapsed", "groupEnd", "info", "log", "table", "time", "timeEnd", "timeLog", "trace", "warn"]) {
  console[name] = nothing;
}

const global = globalThis;
const AbortController = unavailable("AbortController");
const AbortSignal = unavailable("AbortSignal");
const Blob = unavailable("Blob");
const Event = unavailable("Event");
const EventTarget = unavailable("EventTarget");
const File = unavailable("File");
const FormData = unavailable("FormData");
const Headers = unavailable("Headers");
const MessageChannel = unavailable("MessageChannel");
const ReadableStream = unavailable("ReadableStream");
const Request = unavailable("Request");
const Response = unavailable("Response");
const TransformStream = unavailable("TransformStream");
const WritableStream = unavailable("WritableStream");
const clearImmediate = unavailable("clearImmediate");
const clearInterval = unavailable("clearInterval");
const clearTimeout = unavailable("clearTimeout");
const crypto = unavailable("crypto");
const fetch = unavailable("fetch");
const setImmediate = unavailable("setImmediate");
const setInterval = unavailable("setInterval");
const setTimeout = unavailable("setTimeout");

export {
  AbortController, AbortSignal, Blob, clearImmediate, clearInterval, clearTimeout, console, crypto,
  Event, EventTarget, fetch, File, FormData, global, Headers, MessageChannel, ReadableStream,
  Request, Response, setImmediate, setInterval, setTimeout, structuredClone, TransformStream,
  WritableStream
};
