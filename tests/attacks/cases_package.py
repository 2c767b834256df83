"""Corpus §10, the part that runs: modules that do not load, lies, and edits in between."""

from __future__ import annotations

import json

import raw_exec
from tests.attacks.lab import GRACE_MS, Lab
from tests.attacks.model import TIERS, Case, Check, Ran

__all__ = ["CASES"]


_NOT_READ = ("EACCES", "Cannot find module '/etc/")
"""Node's words for EACCES and ERR_MODULE_NOT_FOUND; what was read is a SyntaxError, or runs."""


def _says(*words: str) -> Check:
    def check(ran: Ran) -> str | None:
        told = f"{ran.text} {dict(ran.last.detail)}"
        if any(word in told for word in words):
            return None
        return f"none of {words} in {told[:300]!r}"

    return check


async def _module(lab: Lab, case: Case, ran: Ran) -> None:
    """Load a package with the body as its whole entry file."""
    folder = lab.world.base / "packages" / f"{lab.tier}-{lab.isolation}-{case.tool}"
    tool = folder / "tools" / "t"
    tool.mkdir(parents=True, exist_ok=True)
    python = case.id.endswith("py")
    entry = "index.py" if python else "index.mjs"
    for name, text in case.files.items():
        (tool / name).write_text(text)
    (tool / entry).write_text(case.body)
    manifest = {
        "api_version": 2, "id": "t", "version": "1.0.0", "name": "t", "description": "An attack.",
        "input_schema": {"type": "object"}, "entry": f"./{entry}",
    }  # fmt: skip
    (tool / "tool.json").write_text(json.dumps(manifest))
    config = folder / "config.json"
    config.write_text(
        json.dumps(
            {
                "agents": {"a": {"tools": {"use": ["agent/t"]}}},
                "sandbox": {
                    "profiles": {"p": {"isolation": lab.isolation, "tier": lab.tier}},
                    "default": "p",
                },
                "limits": {"load_ms": 2000, "call_ms": 1500, "grace_ms": GRACE_MS},
            }
        )
    )
    config.chmod(0o600)
    async with raw_exec.open_runtime(
        raw_exec.load_config(config), cwd=lab.work, simulate=TIERS[lab.tier],
        cache_dir=lab.world.base / "cache",
    ) as runtime:  # fmt: skip
        if case.id.startswith("X33"):
            # The content that was checked is the content that runs.
            (tool / entry).write_text(
                "export async function handler() { throw new Error('swapped'); }"
            )
        result = await runtime.registry.dispatch("t", {})
    ran.results = [result]
    ran.code = "ok" if not result.is_error else str(result.code)
    ran.text = result.text


def _bad(
    id_: str,
    title: str,
    source: str,
    code: str = "handler_error",
    word: str | tuple[str, ...] = "",
    **files: str,
) -> Case:
    words = (word,) if isinstance(word, str) else word
    return Case(id_, title, "call", source, codes=(code,), check=_says(*words), drive=_module,
                files=files, again=False, rss_mb=20)  # fmt: skip


_OK = "export async function handler() { return { content: [] }; }\n"

CASES: tuple[Case, ...] = (
    Case(
        "X29.js",
        "declare nothing and write",
        "js",
        """
  await attempt('victim', () => fs.writeFileSync(w.victim, 'x'));
  await attempt('hidden', () => fs.writeFileSync(w.hidden + '/n', 'x'));
  await attempt('config', () => fs.writeFileSync(w.base + '/config/x', 'x'));
""",
        profile="readonly",
    ),
    _bad("X30.syntax", "a syntax error", "export const = ;", word="SyntaxError"),
    _bad("X30.nohandler", "no handler", "export const x = 1;", word="handler"),
    _bad("X30.number", "a handler that is a number", "export const handler = 5;", word="handler"),
    _bad(
        "X30.cjs", "CommonJS in an ES module", "module.exports = { handler() {} };", word="module"
    ),
    _bad(
        "X30.require",
        "require in an ES module",
        "require('fs'); export function handler() {}",
        word="require",
    ),
    _bad("X30.shebang", "a shebang", "#!/usr/bin/env node\n" + _OK, code="ok"),
    _bad("X30.throws", "throw at import", "throw new Error('at import');", word="at import"),
    _bad(
        "X30.missing",
        "import what is not there",
        "import 'nothing-here';" + _OK,
        word="nothing-here",
    ),
    _bad(
        "X30.url",
        "import by network",
        "import 'http://127.0.0.1:1/x.mjs';" + _OK,
        word="protocol 'http:'",
    ),
    _bad(
        "X30.data",
        "import data and run it",
        "import { x } from 'data:text/javascript,export const x = 1';" + _OK,
        code="ok",
    ),
    _bad("X30.outside", "import a file outside", "import '/etc/passwd';" + _OK, word=_NOT_READ),
    _bad(
        "X30.secret",
        "import the shadow file as JSON",
        "import x from '/etc/shadow' with { type: 'json' };" + _OK,
        word=_NOT_READ,
    ),
    _bad("X30.class", "a handler that is a class", "export class handler {}", word="TypeError"),
    _bad(
        "X30.getter",
        "a handler behind a live binding that is undefined",
        "export let handler;",
        word="handler",
    ),
    _bad("X30.large", "a source of 20 MB", "// " + "x" * 20_000_000 + "\n" + _OK, code="ok"),
    _bad("X30.pysyntax.py", "a syntax error in Python", "def handler(", word="SyntaxError"),
    _bad("X30.pymissing.py", "no handler in Python", "x = 1", word="handler"),
    _bad("X30.pyexit.py", "SystemExit at import", "raise SystemExit(3)", word="SystemExit"),
    _bad(
        "X30.pynul.py",
        "a NUL in the source",
        "def handler(a, c): return {'content': []}\n\0",
        word="null bytes",
    ),
    _bad(
        "X30.pycoding.py",
        "a strange encoding",
        "# -*- coding: x-unknown -*-\ndef handler(a, c): pass",
        word="SyntaxError",
    ),
    _bad(
        "X30.pydeep.py",
        "a source nested too deep",
        "x = " + "(" * 5000 + ")" * 5000,
        word=("SyntaxError", "MemoryError", "RecursionError"),
    ),
    _bad("X30.pyclass.py", "a handler that is no function", "handler = 5", word="handler"),
    _bad(
        "X30.pybom.py",
        "JavaScript in a Python file",
        "export async function handler() {}",
        word="SyntaxError",
    ),
    _bad("X33.js", "the source is edited after it was checked", _OK, code="ok"),
)
