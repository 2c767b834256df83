const tagOf = (value) => Object.prototype.toString.call(value).slice(8, -1);
const isObject = (value) => value !== null && typeof value === "object";

const isDate = (value) => value instanceof Date;
const isRegExp = (value) => value instanceof RegExp;
const isMap = (value) => value instanceof Map;
const isSet = (value) => value instanceof Set;
const isWeakMap = (value) => value instanceof WeakMap;
const isWeakSet = (value) => value instanceof WeakSet;
const isPromise = (value) => value instanceof Promise;
const isNativeError = (value) => value instanceof Error;
const isArrayBuffer = (value) => value instanceof ArrayBuffer;
const isAnyArrayBuffer = (value) => value instanceof ArrayBuffer || value instanceof SharedArrayBuffer;
const isArrayBufferView = (value) => ArrayBuffer.isView(value);
const isTypedArray = (value) => ArrayBuffer.isView(value) && !(value instanceof DataView);
const isUint8Array = (value) => value instanceof Uint8Array;
const isDataView = (value) => value instanceof DataView;
const isGeneratorFunction = (value) => typeof value === "function" && tagOf(value) === "GeneratorFunction";
const isGeneratorObject = (value) => isObject(value) && tagOf(value) === "Generator";
const isAsyncFunction = (value) => typeof value === "function" && tagOf(value).startsWith("Async");
const isBoxedPrimitive = (value) => isObject(value)
  && (value instanceof Number || value instanceof String || value instanceof Boolean
    || value instanceof BigInt || value instanceof Symbol);
const isNumberObject = (value) => isObject(value) && value instanceof Number;
const isStringObject = (value) => isObject(value) && value instanceof String;
const isBooleanObject = (value) => isObject(value) && value instanceof Boolean;

const shim = {
  isAnyArrayBuffer, isArrayBuffer, isArrayBufferView, isAsyncFunction, isBooleanObject, isBoxedPrimitive,
  isDataView, isDate, isGeneratorFunction, isGeneratorObject, isMap, isNativeError, isNumberObject,
  isPromise, isRegExp, isSet, isStringObject, isTypedArray, isUint8Array, isWeakMap, isWeakSet,
};

export {
  isAnyArrayBuffer, isArrayBuffer, isArrayBufferView, isAsyncFunction, isBooleanObject, isBoxedPrimitive,
  isDataView, isDate, isGeneratorFunction, isGeneratorObject, isMap, isNativeError, isNumberObject,
  isPromise, isRegExp, isSet, isStringObject, isTypedArray, isUint8Array, isWeakMap, isWeakSet,
  shim as default
};
