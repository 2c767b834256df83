"""Whatever a module or a handler does: one outcome with a code, and the next call works."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import trio

import raw_exec
from requires import require_node
from toolbox import footprint, js_config, py_config, write_config, write_tool

LIMITS = {"limits": {"call_ms": 1500, "load_ms": 3000, "grace_ms": 100}}
OK = "return { content: [{ type: 'text', text: 'ok' }] };"

JS_CASES: dict[str, tuple[str, str, str]] = {
    # name: (handler body, code, a word of the message)
    "throws an error": ("throw new Error('boom')", "handler_error", "boom"),
    "throws undefined": ("throw undefined", "handler_error", "undefined"),
    "throws a number": ("throw 7", "handler_error", "7"),
    "throws a hostile proxy": (
        "throw new Proxy({}, { get() { throw 1 }, getPrototypeOf() { throw 2 } })",
        "handler_error",
        "",
    ),
    "throws a cyclic cause": (
        "const e = new Error('x'.repeat(1e7)); e.cause = e; throw e",
        "handler_error",
        "truncated",
    ),
    "rejects later": (
        "await new Promise((_, no) => setTimeout(() => no(new TypeError('late')), 5))",
        "handler_error",
        "late",
    ),
    "throws in a timer": (
        "setTimeout(() => { throw new Error('stray') }, 1); await new Promise(() => {})",
        "handler_error",
        "stray",
    ),
    "returns undefined": ("return undefined", "invalid_result", ""),
    "returns a number": ("return 7", "invalid_result", ""),
    "returns a string": ("return 'hi'", "invalid_result", ""),
    "returns no content": ("return {}", "invalid_result", "content"),
    "returns unknown fields": ("return { content: [], more: 1 }", "invalid_result", "more"),
    "returns a cycle": (
        "const a = { content: [] }; a.content.push(a); return a",
        "invalid_result",
        "",
    ),
    "returns a bigint": (
        "return { content: [{ type: 'json', value: 1n }] }",
        "invalid_result",
        "/content/0/value",
    ),
    "returns NaN": (
        "return { content: [{ type: 'json', value: [NaN] }] }",
        "invalid_result",
        "/content/0/value/0",
    ),
    "returns a map": (
        "return { content: [{ type: 'json', value: new Map() }] }",
        "invalid_result",
        "",
    ),
    "returns a function": (
        "return { content: [{ type: 'json', value: () => 1 }] }",
        "invalid_result",
        "",
    ),
    "returns an async generator": (
        "return (async function* () { for (;;) yield 1 })()",
        "invalid_result",
        "",
    ),
    "returns a throwing getter": (
        "return { content: [], get code() { throw new Error('gotcha') } }",
        "invalid_result",
        "",
    ),
    "returns too deep": (
        "let v = 0; for (let i = 0; i < 1e5; i++) v = [v];"
        "return { content: [{ type: 'json', value: v }] }",
        "invalid_result",
        "",
    ),
    "returns a huge string": (
        "return { content: [{ type: 'text', text: 'x'.repeat(3e7) }] }",
        "output_limit",
        "",
    ),
    "returns escapes that grow": (
        "return { content: [{ type: 'text', text: '😀'.repeat(7e6) }] }",
        "output_limit",
        "",
    ),
    "exits with 0": ("process.exit(0)", "worker_crashed", "status 0"),
    "exits with 3": ("process.exit(3)", "worker_crashed", "status 3"),
    "really exits": ("process.reallyExit(4)", "worker_crashed", "status 4"),
    "aborts": ("process.abort()", "worker_crashed", "SIGABRT"),
    "kills itself": ("process.kill(process.pid, 'SIGKILL')", "worker_crashed", "SIGKILL"),
    "segfaults itself": ("process.kill(process.pid, 'SIGSEGV')", "worker_crashed", "SIGSEGV"),
    "stops itself": ("process.kill(process.pid, 'SIGSTOP'); for (;;);", "timeout", "1500 ms"),
    "loops": ("for (;;);", "timeout", "1500 ms"),
    "loops in microtasks": (
        "const f = () => Promise.resolve().then(f); await f()",
        "timeout",
        "1500 ms",
    ),
    "never settles": ("await new Promise(() => {})", "timeout", "1500 ms"),
    "ignores signals": (
        "process.on('SIGTERM', () => {}); await new Promise(() => {})",
        "timeout",
        "",
    ),
    "forges a garbage frame": (
        "const fs = process.getBuiltinModule ? process.getBuiltinModule('fs') : await import('fs');"
        "fs.writeSync(4, Buffer.from([0, 0, 0, 1, 0xc1])); await new Promise(() => {})",
        "worker_crashed",
        "protocol",
    ),
    "forges a giant length": (
        "const fs = await import('node:fs');"
        "fs.writeSync(4, Buffer.from([0xff, 0xff, 0xff, 0xff])); await new Promise(() => {})",
        "worker_crashed",
        "protocol",
    ),
    "closes its channel": (
        "const fs = await import('node:fs'); fs.closeSync(4); await new Promise(() => {})",
        "worker_crashed",
        "",
    ),
    "floods stdout": (
        "const fs = await import('node:fs'); for (;;) fs.writeSync(1, 'x'.repeat(65536))",
        "output_limit",
        "printed",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(JS_CASES))
async def test_a_javascript_fault_has_one_outcome(name: str, tmp_path: Path) -> None:
    """Every fault ends in its code, and a benign call to the same tool works next."""
    require_node()
    body, code, word = JS_CASES[name]
    config = js_config(tmp_path, f"if (args.good) {{ {OK} }}\n{body}", **LIMITS)
    await _fault_then_good(config, tmp_path, code, word)


PY_CASES: dict[str, tuple[str, str, str]] = {
    "raises": ("raise ValueError('boom')", "handler_error", "boom"),
    "raises SystemExit": ("raise SystemExit(3)", "handler_error", "SystemExit"),
    "raises KeyboardInterrupt": ("raise KeyboardInterrupt", "handler_error", "KeyboardInterrupt"),
    "raises a group": (
        "raise ExceptionGroup('g', [ValueError(i) for i in range(10000)])",
        "handler_error",
        "",
    ),
    "returns None": ("return None", "invalid_result", ""),
    "returns a cycle": ("a = []; a.append(a); return {'content': a}", "invalid_result", ""),
    "returns a set": ("return {'content': [{'type': 'json', 'value': {1}}]}", "invalid_result", ""),
    "returns nan": (
        "return {'content': [{'type': 'json', 'value': float('nan')}]}",
        "invalid_result",
        "",
    ),
    "returns an int key": (
        "return {'content': [{'type': 'json', 'value': {1: 'a', '1': 'b'}}]}",
        "invalid_result",
        "",
    ),
    "exits": ("import os; os._exit(9)", "worker_crashed", "status 9"),
    "kills itself": ("import os; os.kill(os.getpid(), 11)", "worker_crashed", "SIGSEGV"),
    "uses a realtime signal": ("import os; os.kill(os.getpid(), 64)", "worker_crashed", ""),
    "sleeps": ("import time; time.sleep(1e6)", "timeout", "1500 ms"),
    "loops": ("while True: pass", "timeout", "1500 ms"),
    "runs out of memory": (
        "x = []\nwhile True: x.append(bytearray(10**7))",
        "memory_limit",
        "MemoryError",
    ),
    "forges a frame": (
        "import os, time; os.write(4, b'\\x00\\x00\\x00\\x01\\xc1'); time.sleep(1e6)",
        "worker_crashed",
        "protocol",
    ),
    "floods": ("import os\nwhile True: os.write(1, b'x' * 65536)", "output_limit", "printed"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(PY_CASES))
async def test_a_python_fault_has_one_outcome(name: str, tmp_path: Path) -> None:
    """The same promise for Python handlers."""
    body, code, word = PY_CASES[name]
    good = "if args.get('good'): return {'content': [{'type': 'text', 'text': 'ok'}]}"
    config = py_config(tmp_path, f"{good}\n{body}", **LIMITS)
    await _fault_then_good(config, tmp_path, code, word)


async def _fault_then_good(
    config: raw_exec.Config, cwd: Path, code: str, word: str
) -> raw_exec.ToolResult:
    before = footprint()
    with trio.fail_after(60):
        async with raw_exec.open_runtime(config, cwd=cwd) as runtime:
            bad = await runtime.registry.dispatch("t", {}, tool_call_id="bad")
            assert (bad.code, bad.is_error, bad.origin) == (code, True, "host"), bad
            assert word in bad.text
            assert bad.tool_call_id == "bad"
            assert bad.enforced
            assert len(bad.text.encode()) < 20_000
            good = await runtime.registry.dispatch("t", {"good": True})
            assert (good.text, good.is_error) == ("ok", False), good
    assert footprint() == before
    return bad


MODULES: dict[str, tuple[str, str, str]] = {
    "has a syntax error": ("export const handler = ;", "handler_error", "SyntaxError"),
    "has no handler": ("export const other = 1;", "handler_error", "handler"),
    "has a handler that is no function": ("export const handler = 5;", "handler_error", "handler"),
    "throws at import": ("throw new Error('at import');", "handler_error", "at import"),
    "imports what is missing": (
        "import 'nothing-here'; export function handler() {}",
        "handler_error",
        "nothing-here",
    ),
    "never finishes importing": (
        "await new Promise(() => {}); export async function handler() {}",
        "timeout",
        "importing",
    ),
    "exits at import": (
        "process.exit(1); export async function handler() {}",
        "worker_crashed",
        "",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(MODULES))
async def test_a_bad_module_has_one_outcome(name: str, tmp_path: Path) -> None:
    """Load faults are told apart from call faults."""
    require_node()
    source, code, word = MODULES[name]
    write_tool(tmp_path, "t", source)
    config = raw_exec.load_config(write_config(tmp_path, ["t"], limits={"load_ms": 1500}))
    before = footprint()
    with trio.fail_after(60):
        async with raw_exec.open_runtime(config, cwd=tmp_path) as runtime:
            result = await runtime.registry.dispatch("t", {})
    assert (result.code, result.is_error) == (code, True), result
    assert word in result.text
    assert footprint() == before


@pytest.mark.slow
async def test_side_effects_at_import_meet_the_same_sandbox(tmp_path: Path) -> None:
    """Importing a module happens under the plan of its calls (corpus S22)."""
    require_node()
    outside = tmp_path / "outside"
    outside.mkdir()
    work = tmp_path / "work"
    work.mkdir()
    before = (
        "import fs from 'node:fs';\nconst seen = [];\n"
        f"try {{ fs.writeFileSync({str(outside / 'x')!r}, '1') }}\n"
        "catch (e) { seen.push(e.code) }\n"
        "try { fs.writeFileSync(process.env.TMPDIR + '/y', '1'); seen.push('scratch') }"
        " catch (e) { seen.push(e.code) }\n"
    )
    body = "return { content: [{ type: 'json', value: seen }] };"
    config = js_config(tmp_path, body, before=before)
    with trio.fail_after(60):
        async with raw_exec.open_runtime(config, cwd=work) as runtime:
            result = await runtime.registry.dispatch("t", {})
    seen: Any = result.content[0]["value"]
    assert seen[0] in ("EACCES", "ENOENT", "EROFS")
    assert seen[1] == "scratch"
    assert not (outside / "x").exists()


@pytest.mark.slow
async def test_what_a_plugin_prints_is_captured_and_never_protocol(tmp_path: Path) -> None:
    """Corpus W01, W23: forged frames on stdout are text; escapes reach nobody's terminal."""
    require_node()
    body = 'console.log(\'{"t":"result","id":1}\'); console.error(\'\\x1b[2J\\u202eX\');\n' + OK
    config = js_config(tmp_path, body)
    with trio.fail_after(60):
        async with raw_exec.open_runtime(config, cwd=tmp_path) as runtime:
            result = await runtime.registry.dispatch("t", {})
    assert result.text == "ok"
    assert result.logs["stdout"] == '{"t":"result","id":1}\n'
    assert result.logs["stderr"] == "\\x1b[2J\\u{202e}X\n"


@pytest.mark.slow
async def test_a_worker_that_leaves_timers_is_retired(tmp_path: Path) -> None:
    """Corpus S06: what call A leaves running does not run during call B."""
    require_node()
    body = "globalThis.n = (globalThis.n ?? 0) + 1; if (args.leave) setInterval(() => {}, 10);\n"
    config = js_config(
        tmp_path, body + "return { content: [{ type: 'json', value: globalThis.n }] };"
    )
    with trio.fail_after(60):
        async with raw_exec.open_runtime(config, cwd=tmp_path) as runtime:
            call = runtime.registry.dispatch
            values = [
                (await call("t", {"leave": leave})).content[0]["value"]
                for leave in (False, False, True, False)
            ]
            retired = runtime.statistics().pool.retired
    assert values == [1, 2, 3, 1]
    assert retired == {"left timers": 1}
