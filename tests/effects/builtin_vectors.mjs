// Pure functions of the builtin modules over many inputs; run by Node and by the engine.
import * as path from "node:path";
import { URL, URLSearchParams, fileURLToPath, pathToFileURL } from "node:url";
import util from "node:util";
import { Buffer } from "node:buffer";
import qs from "node:querystring";
import assert from "node:assert";
import EventEmitter from "node:events";
import { StringDecoder } from "node:string_decoder";
const t = (f) => { try { const v = f(); return v === undefined ? "undefined" : v } catch (e) { return "!" + (e.code ?? e.name) } };
const P = ["", "/", "//", "///", ".", "..", "a", "/a", "a/", "/a/", "a/b", "a//b", "./a", "../a", "a/..", "a/../..", "/..", "/../a", "a/./b", "/a/b/../../../c", "a.txt", ".bashrc", "a.b.c", "a.", "..a", "...", "a/.b", "/x/y.tar.gz/", "ü/é.txt", "a b/c d", "//a", "//a/b", "/a//", "a/b/", "./", "../", "x/..//y", "...x/..", "/.", "/..."];
const U = ["http://a/b", "http://a", "https://user:pa%20ss@Ex.com:443/a/../b/./c?x=1&y#f", "http://a.b:8080/", "ftp://x/y", "file:///a/b/../c", "file:a", "file://host/x", "mailto:a@b", "data:text/plain,hi there", "javascript:alert(1)", "http://1.2.3", "http://0x7f.1/", "http://256.1.1.1/", "http://[::1]:80/x", "http://[1:2:0:0:5:0:0:0]/", "http://[::ffff:1.2.3.4]/", "http://[:::1]/", "http://a b/", "http:///x", "http:\\\\x\\y", "  http://a/ \n", "http://a/%7Efoo~^|/é?ü#ö", "http://u^|[]~:p^@h/", "//x/y", "x", "http://a:99999/", "http://a:b/", "non-special://h:1/p/../q", "ns:/a/../b", "http://a/b?c'd\"e", "http://a?x#y", "http://a/..%2fx", "http://a/%2e%2e/b", "ws://h:80/", "blob:https://a/b", "http://-x-/", "http://a..b/", "http://a@b@c/", "http://:80", "http://user@/x", "urn:isbn:1", "HTTP://EXAMPLE.com/A", "http://a/\tb\nc", "http://1e3/", "http://09/", "http://a.0x1/", "foo://", "foo:///p", "foo://h?q"];
const B = ["http://a/b/c/d?q#f", "file:///x/y", "foo://h/p/q", "mailto:x@y"];
const S = ["", "a", "é", "€", "😀", "a😀b", "\ud800", "x\udc00y", "\u0000", "日本語"];
export function vectors() {
  const out = [];
  for (const p of P) out.push([p, t(() => path.normalize(p)), t(() => path.basename(p)), t(() => path.dirname(p)), t(() => path.extname(p)), t(() => path.parse(p)), t(() => path.isAbsolute(p)), t(() => path.resolve("/w/d", p)), t(() => path.format(path.parse(p)))]);
  for (const a of P) for (const b of P) out.push([a, b, t(() => path.join(a, b)), t(() => path.resolve("/r", a, b)), t(() => path.relative("/q/" + a, "/q/" + b)), t(() => path.basename(a, b))]);
  out.push(t(() => path.basename("aa", "a")), t(() => path.basename("a.txt", ".txt")), t(() => path.basename(".txt", ".txt")), t(() => path.basename("/x/.txt", ".txt")), t(() => path.join(1)), t(() => path.posix === path), t(() => path.sep + path.delimiter));
  const show = (u) => [u.href, u.origin, u.protocol, u.username, u.password, u.host, u.hostname, u.port, u.pathname, u.search, u.hash];
  for (const u of U) { out.push([u, t(() => show(new URL(u)))]); for (const b of B) out.push([u, b, t(() => new URL(u, b).href)]); }
  for (const b of B) for (const r of ["", "?x", "#y", "/", "..", "./z/", "g;x", "//h2/i", "\\\\h\\i", "g?y/./x", "/C|/x", "a:b"]) out.push([b, r, t(() => new URL(r, b).href)]);
  out.push(t(() => { const u = new URL("http://a/b?c=1"); u.searchParams.append("d", "x y&"); u.hash = "z"; u.pathname = "q q?"; u.port = "81"; u.host = "n:82"; u.protocol = "https"; u.username = "m@"; return u.href }));
  for (const q of ["", "?a=1&b=2", "a=1&a=2&c", "x=%41+b%zz", "&&=&=x", "é=ü"]) out.push([q, t(() => new URLSearchParams(q).toString()), t(() => [...new URLSearchParams(q)]), t(() => ({ ...qs.parse(q.replace("?", "")) }))]);
  out.push(qs.stringify({ a: 1, b: ["x", "y z"], c: true, d: null, "é": "&" }), qs.escape("a b&c'()*!~"), t(() => new URLSearchParams([["a"]]).toString()), new URLSearchParams({ z: 1, a: "é ~*'" }).toString());
  out.push(t(() => { const s = new URLSearchParams("b=1&a=2&b=3"); s.sort(); s.set("b", "9"); s.delete("a"); return [s.toString(), s.has("b"), s.get("q"), s.size] }));
  for (const p of ["/a b", "/a%b", "/a?b#c", "/é", "/x/../y/", "/a\\b", "/a'\"<>`{}|^[]"]) out.push([p, t(() => pathToFileURL(p).href), t(() => fileURLToPath(pathToFileURL(p)))]);
  for (const u of ["file:///a%20b", "file:///a%2Fb", "http://x", "file://h/x", "file:///é"]) out.push([u, t(() => fileURLToPath(u))]);
  for (const s of S) {
    out.push([Buffer.byteLength(s), Buffer.from(s).toString("hex"), Buffer.from(s).toString("base64"), Buffer.from(s).toString("base64url"), Buffer.from(s, "utf16le").toString("hex"), Buffer.from(s, "latin1").toString("hex"), Buffer.from(Buffer.from(s).toString("base64"), "base64").toString(), [...new TextEncoder().encode(s)], new TextDecoder().decode(new TextEncoder().encode(s))]);
  }
  for (const h of ["ff", "c3", "c328", "e28281", "f0288cbc", "eda080", "f4908080", "e282ac", "efbbbf61", "61ff62", "e2", "f09f98", "c080"]) out.push([h, Buffer.from(h, "hex").toString(), new TextDecoder().decode(Buffer.from(h, "hex")), t(() => new TextDecoder("utf-8", { fatal: true }).decode(Buffer.from(h, "hex")))]);
  for (const b of ["YQ==", "YQ", "YWI=", "-_8", "Y Q\n=", "!!!", "YWJj", "YWJjZA=="]) out.push([b, Buffer.from(b, "base64").toString("hex"), Buffer.byteLength(b, "base64")]);
  out.push(Buffer.from("zz11", "hex").length, Buffer.from("abc", "hex").toString("hex"), Buffer.concat([Buffer.from("a"), Buffer.from([1, 257])]).toString("hex"), Buffer.isBuffer(Buffer.from("")), Buffer.isBuffer(new Uint8Array(1)), JSON.stringify(Buffer.from("hi")), Buffer.from("hello").slice(1, 3).toString(), Buffer.from("hello").indexOf("l"), Buffer.compare(Buffer.from("a"), Buffer.from("b")), Buffer.from("abc").equals(Buffer.from("abc")), Buffer.alloc(3, "ab").toString(), t(() => Buffer.from(1)), t(() => Buffer.from("x", "nope")), Buffer.isEncoding("UTF-8"), Buffer.from([1, 2, 3, 4]).readUInt32BE(0));
  for (const v of [1, -0, "a'b", [1, "x"], {}, { a: 1, "b-c": [null, undefined] }, null, undefined, [], [[[[1]]]], { a: { b: { c: { d: 1 } } } }, new Map([["k", 1]]), new Set([1]), /x/g, new Date(0), true, 10n, Symbol("s"), () => {}, class Foo {}, [,1], "x\ny"]) out.push(util.inspect(v));
  out.push(util.format("%s %d %i %j %% %o", "a", "4.5", "7.9", { a: 1 }, "z"), util.format("a", "b", 3), util.format("%s", null, undefined), util.format(1, 2), util.format("%s"), util.format("%d", "x"), util.format("100%", 1));
  out.push(util.isDeepStrictEqual({ a: [1, { b: 2 }] }, { a: [1, { b: 2 }] }), util.isDeepStrictEqual([1], ["1"]), util.isDeepStrictEqual(new Map([[1, 2]]), new Map([[1, 2]])), util.types.isRegExp(/x/), util.types.isDate({}), util.stripVTControlCharacters("\u001b[31mred\u001b[0m"));
  out.push(t(() => assert.strictEqual(1, 2)), t(() => assert.ok(1)), t(() => assert.deepStrictEqual({ a: 1 }, { a: 1 })), t(() => assert.throws(() => { throw new TypeError("x") }, TypeError)), t(() => assert(0)), t(() => assert.throws(() => {})), t(() => assert.match("a", /b/)));
  out.push(t(() => { const e = new EventEmitter(); const l = []; e.on("x", (v) => l.push(v)); e.once("x", (v) => l.push(v * 2)); e.prependListener("x", () => l.push("p")); e.emit("x", 1); e.emit("x", 2); return [l, e.listenerCount("x"), e.emit("y"), e.eventNames()] }), t(() => new EventEmitter().emit("error", new RangeError("q"))));
  out.push(t(() => { const d = new StringDecoder("utf8"); return [d.write(Buffer.from([0xe2, 0x82])), d.write(Buffer.from([0xac])), d.end(Buffer.from([0xc3]))] }));
  out.push(t(() => structuredClone({ a: [1, new Date(0)], m: new Map([[1, 2]]) }).a[0]), t(() => structuredClone(() => {})), atob("aGk="), btoa("hi"));
  return out;
}
