import { inspect, isDeepStrictEqual } from "raw:util";

class AssertionError extends Error {
  constructor({ message, actual, expected, operator }) {
    super(message ?? inspect(actual) + " " + operator + " " + inspect(expected));
    this.name = "AssertionError";
    this.code = "ERR_ASSERTION";
    this.generatedMessage = message === undefined;
    this.actual = actual;
    this.expected = expected;
    this.operator = operator;
  }
}

function check(holds, message, actual, expected, operator) {
  if (holds) return;
  if (message instanceof Error) throw message;
  throw new AssertionError({ message, actual, expected, operator });
}

function assert(value, message) { check(value, message, value, true, "=="); }

const ok = (value, message) => check(value, message, value, true, "==");
const strictEqual = (a, b, message) => check(Object.is(a, b), message, a, b, "strictEqual");
const notStrictEqual = (a, b, message) => check(!Object.is(a, b), message, a, b, "notStrictEqual");
const deepStrictEqual = (a, b, message) => check(isDeepStrictEqual(a, b), message, a, b, "deepStrictEqual");
const notDeepStrictEqual = (a, b, message) => check(!isDeepStrictEqual(a, b), message, a, b, "notDeepStrictEqual");
const equal = (a, b, message) => check(a == b || (a !== a && b !== b), message, a, b, "==");
const notEqual = (a, b, message) => check(a != b, message, a, b, "!=");
const deepEqual = deepStrictEqual;
const notDeepEqual = notDeepStrictEqual;
const match = (text, pattern, message) => check(pattern.test(text), message, text, pattern, "match");
const doesNotMatch = (text, pattern, message) => check(!pattern.test(text), message, text, pattern, "doesNotMatch");
const fail = (message) => check(false, message ?? "Failed", undefined, undefined, "fail");

function fits(error, expected) {
  if (expected === undefined || typeof expected === "string") return true;
  if (expected instanceof RegExp) return expected.test(String(error));
  if (typeof expected === "function") {
    return expected.prototype !== undefined && error instanceof expected ? true
      : Error.isPrototypeOf(expected) ? false : expected.call({}, error) === true;
  }
  return Object.keys(expected).every((key) => expected[key] instanceof RegExp && typeof error[key] === "string"
    ? expected[key].test(error[key]) : isDeepStrictEqual(error[key], expected[key]));
}

function throws(block, expected, message) {
  try {
    block();
  } catch (error) {
    if (!fits(error, expected)) throw error;
    return;
  }
  check(false, typeof expected === "string" ? expected : message ?? "Missing expected exception.", undefined, expected, "throws");
}

function doesNotThrow(block) { block(); }

Object.assign(assert, {
  AssertionError, deepEqual, deepStrictEqual, doesNotMatch, doesNotThrow, equal, fail, match, notDeepEqual,
  notDeepStrictEqual, notEqual, notStrictEqual, ok, strict: assert, strictEqual, throws,
});
const strict = assert;

export {
  AssertionError, deepEqual, deepStrictEqual, doesNotMatch, doesNotThrow, equal, fail, match, notDeepEqual,
  notDeepStrictEqual, notEqual, notStrictEqual, ok, strict, strictEqual, throws, assert as default
};
