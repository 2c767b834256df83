// What a module may ask of the process it thinks it is in. Nothing here says anything
// about the host.
import unavailable, { noCwd, refuse } from "raw:unavailable";

const stream = (fd) => Object.freeze({ fd, isTTY: false, columns: 80, write: unavailable("process.stdout.write") });
const nothing = () => {};

const known = {
  platform: "linux",
  arch: "x64",
  version: "v20.0.0",
  versions: Object.freeze({ node: "20.0.0" }),
  release: Object.freeze({ name: "node" }),
  env: Object.freeze({}),
  argv: Object.freeze([]),
  argv0: "node",
  execArgv: Object.freeze([]),
  execPath: "/usr/bin/node",
  pid: 0,
  ppid: 0,
  title: "node",
  exitCode: undefined,
  features: Object.freeze({}),
  config: Object.freeze({}),
  stdin: stream(0),
  stdout: stream(1),
  stderr: stream(2),
  on: nothing, once: nothing, off: nothing, addListener: nothing, removeListener: nothing,
  emitWarning: nothing,
  nextTick: (callback, ...args) => queueMicrotask(() => callback(...args)),
  uptime: () => 0,
  hrtime: Object.assign(() => [0, 0], { bigint: () => 0n }),
  memoryUsage: () => Object.freeze({ rss: 0, heapTotal: 0, heapUsed: 0, external: 0, arrayBuffers: 0 }),
  cwd: noCwd,
};
for (const name of ["exit", "kill", "abort", "chdir", "binding", "dlopen", "umask", "getuid", "geteuid", "getgid", "setuid"]) {
  known[name] = () => refuse("process." + name);
}
const process = Object.freeze(known);
const { platform, arch, version, versions, env, argv, execPath, pid, stdin, stdout, stderr, nextTick, cwd, hrtime, exit } = process;

export {
  arch, argv, cwd, env, execPath, exit, hrtime, nextTick, pid, platform, process, stderr, stdin, stdout, version, versions,
  process as default
};
