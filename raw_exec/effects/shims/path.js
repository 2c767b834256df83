// node:path for POSIX. Lexical: nothing here looks at a file system.
import { noCwd } from "raw:unavailable";

function needText(value, name) {
  if (typeof value === "string") return;
  const error = new TypeError('The "' + name + '" argument must be of type string. Received ' + (value === null ? "null" : "type " + typeof value));
  error.code = "ERR_INVALID_ARG_TYPE";
  throw error;
}

// Drop "." and empty segments, and let ".." take away the segment before it.
function collapse(path, isAbsolute) {
  const kept = [];
  for (const part of path.split("/")) {
    if (part === "" || part === ".") continue;
    if (part !== "..") kept.push(part);
    else if (kept.length && kept[kept.length - 1] !== "..") kept.pop();
    else if (!isAbsolute) kept.push("..");
  }
  return kept.join("/");
}

const sep = "/";
const delimiter = ":";

function isAbsolute(path) {
  needText(path, "path");
  return path.startsWith("/");
}

function normalize(path) {
  needText(path, "path");
  if (path === "") return ".";
  const rooted = path.startsWith("/");
  let out = collapse(path, rooted);
  if (out === "") {
    if (rooted) return "/";
    return path.endsWith("/") ? "./" : ".";
  }
  if (path.endsWith("/")) out += "/";
  return rooted ? "/" + out : out;
}

function join(...parts) {
  for (const part of parts) needText(part, "path");
  const joined = parts.filter((part) => part !== "").join("/");
  return joined === "" ? "." : normalize(joined);
}

function resolve(...parts) {
  let out = "";
  for (let i = parts.length - 1; i >= 0 && !out.startsWith("/"); i--) {
    needText(parts[i], "paths[" + i + "]");
    if (parts[i] !== "") out = out === "" ? parts[i] : parts[i] + "/" + out;
  }
  if (!out.startsWith("/")) out = noCwd() + "/" + out;
  return "/" + collapse(out, true);
}

function relative(from, to) {
  needText(from, "from");
  needText(to, "to");
  if (from === to) return "";
  const start = resolve(from), end = resolve(to);
  if (start === end) return "";
  const a = start === "/" ? [] : start.slice(1).split("/");
  const b = end === "/" ? [] : end.slice(1).split("/");
  let same = 0;
  while (same < a.length && same < b.length && a[same] === b[same]) same++;
  return [...a.slice(same).map(() => ".."), ...b.slice(same)].join("/");
}

function withoutTrailing(path) {
  let end = path.length;
  while (end > 1 && path[end - 1] === "/") end--;
  return path.slice(0, end);
}

function dirname(path) {
  needText(path, "path");
  if (path === "") return ".";
  const cut = withoutTrailing(path).lastIndexOf("/");
  if (cut > 0) return cut === 1 && path.startsWith("//") ? "//" : path.slice(0, cut);
  return cut === 0 ? "/" : ".";
}

// Where the last segment starts, and where it ends before trailing slashes.
function lastSegment(path) {
  let end = path.length;
  while (end > 0 && path[end - 1] === "/") end--;
  // A path of slashes only has no last segment; it starts at the beginning.
  return { start: end === 0 ? 0 : path.lastIndexOf("/", end - 1) + 1, end };
}

function basename(path, suffix) {
  if (suffix !== undefined) needText(suffix, "suffix");
  needText(path, "path");
  const { start, end } = lastSegment(path);
  const name = path.slice(start, end);
  if (suffix === undefined || suffix === "" || suffix.length > path.length) return name;
  if (suffix === path) return "";
  if (name === suffix) return name;
  if (name.endsWith(suffix)) return name.slice(0, -suffix.length);
  // Node keeps trailing slashes where the suffix goes on matching before the name.
  return suffix.endsWith(name) ? path.slice(start) : name;
}

function extname(path) {
  needText(path, "path");
  const name = basename(path);
  const dot = name.lastIndexOf(".");
  return dot <= 0 || name === ".." ? "" : name.slice(dot);
}

function parse(path) {
  needText(path, "path");
  const root = path.startsWith("/") ? "/" : "";
  const base = basename(path);
  const { start } = lastSegment(path);
  // Node sees an extension in a ".." that follows the root directly.
  const ext = base === ".." && root && start === 1 ? "." : extname(path);
  const name = ext ? base.slice(0, -ext.length) : base;
  const dir = base !== "" && start > 1 ? path.slice(0, start - 1) : base === "" || start === 1 ? root : "";
  return { root, dir, base, ext, name };
}

function format(object) {
  if (object === null || typeof object !== "object") {
    const error = new TypeError('The "pathObject" argument must be of type object.');
    error.code = "ERR_INVALID_ARG_TYPE";
    throw error;
  }
  const dir = object.dir || object.root;
  const ext = object.ext ? (object.ext.startsWith(".") ? object.ext : "." + object.ext) : "";
  const base = object.base || (object.name || "") + ext;
  if (!dir) return base;
  return dir === object.root ? dir + base : dir + "/" + base;
}

const toNamespacedPath = (path) => path;
const shim = { basename, delimiter, dirname, extname, format, isAbsolute, join, normalize, parse, relative, resolve, sep, toNamespacedPath };
shim.posix = shim;
const posix = shim;

export {
  basename, delimiter, dirname, extname, format, isAbsolute, join, normalize, parse, posix, relative, resolve, sep,
  toNamespacedPath, shim as default
};
