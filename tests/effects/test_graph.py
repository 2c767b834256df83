"""From an entry to the modules it needs."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest

from raw_exec.effects import EngineUnsupported
from raw_exec.effects.graph import build_graph
from raw_exec.effects.lexer import Import, LexError, scan_module


def found(text: str) -> list[tuple[str, tuple[str, ...], str | None]]:
    return [(i.specifier, i.names, i.namespace) for i in scan_module(text).imports]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('import "a"', [("a", (), None)]),
        ("import a from 'a'", [("a", ("default",), None)]),
        ("import a, { b, c as d } from 'a'", [("a", ("default", "b", "c"), None)]),
        ("import a, * as b from 'a'", [("a", ("default",), "b")]),
        ("import { 'x y' as z, default as q, } from 'a'", [("a", ("x y", "default"), None)]),
        ("import{a}from'a';import*as b from'b'", [("a", ("a",), None), ("b", (), "b")]),
        ("import from from 'a'", [("a", ("default",), None)]),
        ("import { from, as as as } from 'a'", [("a", ("from", "as"), None)]),
        ("import /* x */ a // y\n from /* 'no' */ 'a'", [("a", ("default",), None)]),
        ("export * from 'a'", [("a", (), "*")]),
        ("export * as x from 'a'", [("a", (), "*")]),
        ("export { a, b as default } from 'a'", [("a", ("a", "b"), None)]),
        ("export { a, b as c }; export default 'x' ;", []),
        ("export const from = 'a', x = `import 'b'`", []),
        ("const x = { import: 1, export: 2, from: 'a' }; x.import; x?.export", []),
        ("class A { import() { return import('b') } static from = 'c' }", []),
        ("await import('x'); import.meta.url; import\n.meta", []),
        ("// import 'a'\n/* import 'b' */ \"import 'c'\"; 'import \"d\"'", []),
        ("`${`import 'a' ${1} }`} import 'b'`; import 'c'", [("c", (), None)]),
        ("`\\`${ {a:`}`} }` ;import 'c'", [("c", (), None)]),
        ("const r = /import 'a'/g, s = a / b / c; import 'd'", [("d", (), None)]),
        ("if (x) /'/.test(y); import 'd'", [("d", (), None)]),
        ("const a = (b) / 2; const q = \"'\" / 3; import 'd'", [("d", (), None)]),
        ("function f() { } /'/.test(x); import 'd'", [("d", (), None)]),
        ("const x = [/[/'\"`]/, /\\/'/]; import 'd'", [("d", (), None)]),
        ("return_ / 2; x.return / 3; import 'd'", [("d", (), None)]),
        ("x++ / 2; import 'd' // '", [("d", (), None)]),
        ("#!/usr/bin/env node it's\nimport 'd'", [("d", (), None)]),
        ("\ufeffimport 'd'", [("d", (), None)]),
        ("import 'a\\u0062\\x63\\u{64}\\\n'", [("abcd", (), None)]),
        ("const é = 1, \\u0061 = 2, $x_ = 3; import 'd'", [("d", (), None)]),
    ],
)
def test_imports_are_found_and_nothing_else(text: str, expected: list[object]) -> None:
    """Ours: strings, comments, templates and patterns hold no imports."""
    assert found(text) == expected


def test_import_attributes_are_read_with_their_place() -> None:
    """Ours: they are cut out, since the JSON text becomes a module."""
    text = "import d from './d.json' with { type: \"json\" }; import 'x'"
    assert scan_module(text).imports == (
        Import("./d.json", 14, 24, ("default",), None, (24, 46), "json"),
        Import("x", 55, 58),
    )


@pytest.mark.parametrize(
    ("text", "is_module"),
    [
        ("import 'a'", True),
        ("export {}", True),
        ("export default 1", True),
        ("import.meta", True),
        ("module.exports = 1 // export", False),
        ("import('a')", False),
        ("exports.import = { export: 1 }", False),
    ],
)
def test_module_syntax_is_recognised(text: str, is_module: bool) -> None:
    """Ours: decides what a .js file without a package type is."""
    assert scan_module(text).is_module is is_module


@pytest.mark.parametrize(
    "text",
    ["import 'a", "import {", "import { a, ", "`${ import 'a'", "/* import 'a'",
     "import 1 from 'a'",
     "export { a } from b", "import a from 'a' with { type: 'json'", "import * from 'a'"],
)  # fmt: skip
def test_what_is_not_javascript_is_an_error_or_has_no_imports(text: str) -> None:
    """Ours: the tokenizer ends on every input; the engine reports syntax."""
    with suppress(LexError):
        scan_module(text)


@pytest.mark.parametrize(
    ("piece", "reason"),
    [("/* ", "comment"), ("=/[", "regular expression")],
)
def test_the_first_thing_without_end_ends_the_scan(piece: str, reason: str) -> None:
    """Looking on from each of them would take a time that grows with the square of the text."""
    with pytest.raises(LexError, match=f"a {reason} without end at character [0-9]"):
        scan_module(piece * 200_000 + "\nimport 'a'")


def test_many_namespaces_of_builtins_are_looked_up_in_one_pass() -> None:
    """As many imports as fit in a file must not mean as many searches through it."""
    imports = "".join(f"import * as n{i} from 'node:fs';\n" for i in range(20_000))
    text = imports + "export const f = () => n7.open(n9 ?. stat.sep, n11.promises.name, n.no)"
    found = build_graph({"index.mjs": text.encode()}.get, "index.mjs")
    assert [module.name for module in found if "index" in module.name] == ["/plugin/index.mjs"]
    shim = next(module.text.decode() for module in found if module.name == "node:fs")
    wanted = ("open", "stat", "promises", "no", "sep")
    assert [name in shim for name in wanted] == [True, True, True, False, False]


def names(files: dict[str, str], entry: str = "index.mjs") -> list[str]:
    return [m.name for m in build_graph({k: v.encode() for k, v in files.items()}.get, entry)]


NESTED = "[" * 900 + '"./a.js"' + "]" * 900
COMMONJS = '{"type": "commonjs"}'
PACKAGE = '{"name": "p", "type": "module", "exports": %s}'


@pytest.mark.parametrize(
    ("exports", "specifier", "path"),
    [
        ('"./a.js"', "p", "a.js"),
        ('{"import": "./a.js", "default": "./b.js"}', "p", "a.js"),
        ('{"require": "./x.cjs", "default": "./b.js"}', "p", "b.js"),
        ('{".": {"node": {"import": "./a.js"}}, "./s": "./b.js"}', "p/s", "b.js"),
        ('{"./f/*": "./lib/*.js"}', "p/f/c", "lib/c.js"),
        ('{"./f/*": "./lib/*.js", "./f/c": "./a.js"}', "p/f/c", "a.js"),
        ('{"./*": "./*", "./lib/*": "./lib/*.js"}', "p/lib/c", "lib/c.js"),
        ('[{"worker": "./x.js"}, "./a.js"]', "p", "a.js"),
        ('{".": {"node": "./n.cjs", "default": "./a.js"}}', "p", "a.js"),
    ],
)
def test_packages_resolve_as_in_node(exports: str, specifier: str, path: str) -> None:
    """Node's algorithm; where it leads to CommonJS, the package's own ESM build."""
    files = {
        "index.mjs": f"import '{specifier}'",
        "node_modules/p/package.json": PACKAGE % exports,
        **{f"node_modules/p/{name}": "" for name in ("a.js", "b.js", "lib/c.js", "n.cjs", "x.cjs")},
    }
    assert names(files) == [f"/plugin/node_modules/p/{path}", "/plugin/index.mjs"]


def test_nearest_package_and_internal_imports_win(load) -> None:
    """Ours: two versions of one package are two modules."""
    module = load(
        "import a from 'q'; import { b } from 'p';"
        "import data from './d%20a.json' with { type: 'json' };"
        "export function validateArgs() { return [a, b, data.x].join() }",
        files={
            "d a.json": '{"x": "é\\u2028"}',
            "node_modules/q/package.json": '{"main": "lib", "module": "esm.js"}',
            "node_modules/q/lib/index.js": "module.exports = 0",
            "node_modules/q/esm.js": "export default 'outer'",
            "node_modules/p/package.json": PACKAGE % '"./i.js"' + "",
            "node_modules/p/i.js": "import a from 'q'; import c from '../p/c.js';"
            "export const b = a + c;",
            "node_modules/p/c.js": "export { default } from './dir/deep.mjs'",
            "node_modules/p/dir/deep.mjs": "export default import.meta.url.slice(-8)",
            "node_modules/p/node_modules/q/package.json": '{"exports": "./x.mjs"}',
            "node_modules/p/node_modules/q/x.mjs": "export default 'inner'",
        },
    )
    assert module.validate_args({}) == "outer,innerdeep.mjs,é\u2028"


def test_package_imports_and_self_reference_resolve(load) -> None:
    """Node's algorithm, for a plugin that has a package.json."""
    module = load(
        "import a from '#a'; import b from 'own/b';export function validateArgs() { return a + b }",
        files={
            "package.json": '{"name": "own", "imports": {"#a": "./lib/a.mjs"},'
            '"exports": {"./b": "./b.mjs"}}',
            "lib/a.mjs": "export default 'A'",
            "b.mjs": "export default 'B'",
        },
    )
    assert module.validate_args({}) == "AB"


def test_modules_that_import_one_another_load(load) -> None:
    """ECMAScript allows cycles; large libraries have them."""
    module = load(
        "import { b } from './b.mjs'; export const a = () => 'a';"
        "export function validateArgs() { return b() }",
        files={
            "b.mjs": "import { a } from './index.mjs'; import * as c from './c.mjs';"
            "export const b = () => a() + c.c()",
            "c.mjs": "import { b } from './b.mjs'; export const c = () => typeof b",
        },
    )
    assert module.validate_args({}) == "afunction"


@pytest.mark.parametrize(
    ("text", "files", "reason"),
    [
        ("import './no.mjs'", {}, "does not exist"),
        ("import './x'", {"x": ""}, "unknown kind"),
        ("import './x.ts'", {"x.ts": ""}, "unknown kind"),
        ("import './x.cjs'", {"x.cjs": ""}, "CommonJS"),
        ("import './x.js'", {"x.js": "module.exports = 1"}, "CommonJS"),
        ("import './x.js'", {"x.js": "export {}", "package.json": COMMONJS}, "CommonJS"),
        ("import './x.node'", {"x.node": ""}, "native addon"),
        ("import './x.json'", {"x.json": "{}"}, 'type: "json"'),
        ("import './x.json' with { type: 'json' }", {"x.json": "{"}, "not valid JSON"),
        ("import '../x.mjs'", {}, "outside"),
        ("import '/etc/x.mjs'", {}, "by URL"),
        ("import 'file:///x.mjs'", {}, "by URL"),
        ("import 'data:text/javascript,1'", {}, "by URL"),
        ("import 'https://x/y.mjs'", {}, "by URL"),
        ("import './x.mjs?v=1'", {"x.mjs": ""}, "query"),
        ("import 'nope'", {}, "not in node_modules"),
        ("import 'p/x'", {"node_modules/p/package.json": PACKAGE % '"./a.js"'}, "not exported"),
        ("import 'p'", {"node_modules/p/package.json": PACKAGE % '"../../x.js"'}, "not exported"),
        ("import 'p'", {"node_modules/p/package.json": PACKAGE % '"./../../../x.js"'}, "outside"),
        ("import 'p'", {"node_modules/p/package.json": "{"}, "not valid JSON"),
        ("import 'p'", {"node_modules/p/package.json": "{}"}, "no main module"),
        ("import '#x'", {"package.json": "{}"}, "imports"),
        ("export * from 'node:fs'", {}, "re-export"),
        ("import './x.mjs'", {"x.mjs": b"\xff"}, "UTF-8"),
        ("import './x.mjs'", {"x.mjs": "a\0"}, "NUL"),
        ("import './x.mjs'", {"x.mjs": "` import 'a'"}, "template"),
        ("export const f = () => new Intl.Collator()", {}, "mentions Intl"),
        ("import './x.mjs'", {"x.mjs": " " * 9_000_000}, "larger"),
        ("import 'p'", {"node_modules/p/package.json": PACKAGE % NESTED}, "nests too deeply"),
    ],
)  # fmt: skip
def test_what_cannot_be_loaded_is_unsupported_with_the_reason(load, text, files, reason) -> None:
    """design.md §3: the reason shows in `raw tools check`."""
    with pytest.raises(EngineUnsupported, match=reason):
        load(text, files=files)


LOADABLE = {
    "zod": "import { z } from 'zod'; const S = z.object({ path: z.string().min(1) });"
    "export const validateArgs = (a) => S.safeParse(a).error?.issues[0].code",
    "yaml": "import { parse } from 'yaml';"
    "export const validateArgs = () => JSON.stringify(parse('a: [1]'))",
    "marked": "import { marked } from 'marked';"
    "export const validateArgs = () => marked('*x*').trim()",
    "diff": "import { diffWords } from 'diff';"
    "export const validateArgs = () => '' + diffWords('a', 'b').length",
}
ANSWERS = {"zod": "too_small", "yaml": '{"a":[1]}', "marked": "<p><em>x</em></p>", "diff": "2"}


def read_library(npm: Path, entry: str):
    def read(path: str) -> bytes | None:
        if path == "index.mjs":
            return entry.encode()
        file = npm / path
        return file.read_bytes() if file.is_file() else None

    return read


@pytest.mark.slow
@pytest.mark.parametrize("name", LOADABLE)
def test_esm_libraries_run_in_process(engine, npm: Path, name: str) -> None:
    """Descriptors that import real packages."""
    module = engine.load(
        read_library(npm, LOADABLE[name]), "./index.mjs", deadline_ms=5000, load_ms=30_000
    )
    assert module.validate_args({"path": ""}) == ANSWERS[name]
    module.close()


@pytest.mark.parametrize("name", ["semver", "cheerio", "execa"])
def test_libraries_with_commonjs_parts_are_left_to_a_worker(engine, npm: Path, name: str) -> None:
    """Ours: the reason names the CommonJS file."""
    with pytest.raises(EngineUnsupported, match=r"is CommonJS \(node_modules/"):
        engine.load(
            read_library(npm, f"import * as x from '{name}'"), "index.mjs", deadline_ms=1000
        )
