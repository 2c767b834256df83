// Runs first in every engine, as a plain script whose value is the function the host
// calls. It captures what it uses, so that a plugin which changes a prototype changes
// only its own answers. Everything here runs inside the deadline.
(function (maxDepth) {
  "use strict";
  const { stringify } = JSON;
  const { isArray } = Array;
  const { getPrototypeOf, keys, prototype: objectPrototype } = Object;
  const { isFinite, isSafeInteger } = Number;
  const { charCodeAt, slice } = String.prototype;
  const { call } = Function.prototype;
  const codeAt = call.bind(charCodeAt);
  const cut = call.bind(slice);
  const OutOfMemory = InternalError;
  const text = String;
  const functions = ["handler", "validateArgs", "describeEffects"];
  let plugin = null;

  class Unfit {
    constructor(reason) { this.reason = reason; }
  }

  // A strict encoder: data only, no toJSON, each property read once. Strings and numbers
  // go through the engine's own serialiser.
  function encode(value, depth, at) {
    if (value === null || value === true || value === false) return text(value);
    if (typeof value === "string") {
      return stringify(value);
    }
    if (typeof value === "number") {
      if (!isFinite(value)) throw new Unfit(at + " is " + text(value) + ", which JSON cannot express");
      return stringify(value);
    }
    if (typeof value !== "object") throw new Unfit(at + " is of type " + typeof value);
    if (depth <= 0) throw new Unfit(at + " is nested too deeply, or contains itself");
    let out = "";
    if (isArray(value)) {
      const length = value.length;
      for (let i = 0; i < length; i++) {
        out += (i ? "," : "") + encode(value[i], depth - 1, at + "/" + i);
      }
      return "[" + out + "]";
    }
    const proto = getPrototypeOf(value);
    if (proto !== objectPrototype && proto !== null) {
      throw new Unfit(at + " is an instance of a class");
    }
    const names = keys(value);
    for (let i = 0; i < names.length; i++) {
      const item = value[names[i]];
      if (item === undefined) continue;
      out += (out ? "," : "") + stringify(names[i]) + ":" + encode(item, depth - 1, at + "/" + names[i]);
    }
    return "{" + out + "}";
  }

  function explain(error) {
    if (error instanceof Unfit) return "bad_result:" + error.reason;
    if (error instanceof OutOfMemory && error.message === "out of memory") return "memory:";
    let shown;
    try {
      if (error !== null && typeof error === "object" && typeof error.message === "string") {
        const name = typeof error.name === "string" ? error.name : "Error";
        shown = name + ": " + error.message;
      } else {
        shown = typeof error === "symbol" ? "a symbol" : text(error);
      }
    } catch {
      shown = "a value that cannot be shown";
    }
    return "threw:" + cut(shown, 0, 4000);
  }

  function isThenable(value) {
    if (value === null || (typeof value !== "object" && typeof value !== "function")) return false;
    return typeof value.then === "function";
  }

  function run(request) {
    const name = request[0];
    const result = name === "validateArgs"
      ? (0, plugin.validateArgs)(request[1])
      : (0, plugin.describeEffects)(request[1], { cwd: request[2] });
    if (isThenable(result)) return "not_synchronous:";
    if (name === "validateArgs") {
      if (result === undefined || result === null) return "none:";
      if (typeof result === "string") return "text:" + result;
      throw new Unfit("the result is of type " + (isArray(result) ? "array" : typeof result));
    }
    return "json:" + encode(result, maxDepth, "the result");
  }

  function answer(request) {
    try {
      return run(request);
    } catch (error) {
      return explain(error);
    }
  }

  // Takes the plugin's namespace; says which descriptor exports it has, "+" for functions.
  function adopt(namespace) {
    plugin = namespace;
    let found = "";
    for (let i = 0; i < functions.length; i++) {
      const value = namespace[functions[i]];
      if (value !== undefined) found += (typeof value === "function" ? "+" : "-") + functions[i] + " ";
    }
    return found;
  }

  // Why a module did not load. What this engine lacks is not the plugin's fault.
  function explainLoad(error) {
    try {
      const ours = error !== null && typeof error === "object" && (error.code === "ERR_DESCRIPTOR_IO"
        || error.name === "ReferenceError" || error.name === "SyntaxError");
      const why = explain(error);
      return ours && cut(why, 0, 6) === "threw:" ? "unsupported:" + cut(why, 6) : why;
    } catch (second) {
      return explain(second);
    }
  }

  return { answer, adopt, explainLoad };
})
