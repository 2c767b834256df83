// A value that stands for something a descriptor cannot have. It can be imported, passed
// around, destructured and extended; using it throws.

function refuse(name) {
  const error = new Error(name + " is not available in a descriptor: descriptors can't do I/O");
  error.code = "ERR_DESCRIPTOR_IO";
  throw error;
}

export default function unavailable(name) {
  const target = function () {};
  return new Proxy(target, {
    apply() { refuse(name); },
    construct() { refuse(name); },
    get(_, key) {
      if (key === "then") return undefined;
      if (key === "prototype") return target.prototype;
      if (key === "name") return name;
      if (key === "length") return 0;
      if (key === Symbol.toPrimitive || key === Symbol.iterator || key === Symbol.asyncIterator) refuse(name);
      if (typeof key === "symbol") return undefined;
      if (key === "call" || key === "apply" || key === "bind") return Function.prototype[key];
      return unavailable(name + "." + key);
    },
  });
}

function noCwd() {
  const error = new Error("process.cwd() is not available in a descriptor: use the cwd that describeEffects is given");
  error.code = "ERR_DESCRIPTOR_IO";
  throw error;
}

export { noCwd, refuse };
