import unavailable from "raw:unavailable";

const EOL = "\n";
const devNull = "/dev/null";
const constants = Object.freeze({ signals: Object.freeze({ SIGHUP: 1, SIGINT: 2, SIGQUIT: 3, SIGKILL: 9, SIGTERM: 15 }) });
const platform = () => "linux";
const type = () => "Linux";
const endianness = () => "LE";
const shim = new Proxy({ EOL, constants, devNull, endianness, platform, type }, {
  get: (target, key) => key in target || typeof key === "symbol" || key === "then" ? target[key] : unavailable("os." + key),
});

export { EOL, constants, devNull, endianness, platform, type, shim as default };
