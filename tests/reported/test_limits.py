"""What users reported about aborts, timeouts and memory: one truthful outcome, and it ends.

Each test has the name of the symptom that it looks for and must not find.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import trio

import raw_exec
from requires import require_node
from tests.reported.support import (
    JS_OK,
    OK,
    PROCESSES,
    TIERS,
    node_tool,
    python_tool,
    session,
    shell,
)
from toolbox import write_config, write_tool

pytestmark = pytest.mark.slow

JS_LEARNS = """
await new Promise((done) => {
  context.signal.addEventListener('abort', () => {
    fs.writeFileSync('told', String(context.signal.reason)); done();
  });
  fs.writeFileSync('up', 'up');
});
"""
PY_LEARNS = """
open('up', 'w').write('up')
context.signal.wait()
open('told', 'w').write(str(context.signal.reason))
"""


@pytest.mark.parametrize("language", ["js", "py"])
@pytest.mark.parametrize("how", ["timeout", "cancel"])
async def test_a_task_can_not_learn_that_it_was_given_up(
    tmp_path: Path, how: str, language: str
) -> None:
    """piscinajs/piscina #156, modelcontextprotocol/python-sdk #2507, modelcontextprotocol #418."""
    limits = {"call_ms": 1000 if how == "timeout" else 60_000, "grace_ms": 5000}
    if language == "js":
        require_node()
        opening = node_tool(
            tmp_path, JS_LEARNS + JS_OK, before="import fs from 'node:fs';", limits=limits
        )
    else:
        opening = python_tool(tmp_path, PY_LEARNS + OK, limits=limits)
    async with opening as opened:
        if how == "timeout":
            assert (await opened.call()).code == "timeout"
        else:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(opened.call)
                await opened.appears("up")
                nursery.cancel_scope.cancel()
        assert (opened.work / "told").read_text()
        assert opened.runtime.statistics().live_trees == 0


@pytest.mark.parametrize("language", ["js", "py"])
async def test_aborting_one_task_kills_an_unrelated_task(tmp_path: Path, language: str) -> None:
    """piscinajs/piscina #934: two calls of one tool; one is given up, the other answers."""
    js = (
        "fs.writeFileSync('up' + args.n, 'up');\n"
        "while (!fs.existsSync('go') || args.n === 1) await new Promise((r) => setTimeout(r, 5));\n"
    )
    py = (
        "import os, time\n"
        "open('up%d' % args['n'], 'w').write('up')\n"
        "while not os.path.exists('go') or args['n'] == 1: time.sleep(0.005)\n"
    )
    if language == "js":
        require_node()
        opening = node_tool(tmp_path, js + JS_OK, before="import fs from 'node:fs';")
    else:
        opening = python_tool(tmp_path, py + OK)
    texts: list[str] = []
    async with opening as opened:

        async def one(n: int, scope: trio.CancelScope) -> None:
            with scope:
                texts.append((await opened.call("t", {"n": n})).text)

        scopes = [trio.CancelScope(), trio.CancelScope()]
        async with trio.open_nursery() as nursery:
            for n in (0, 1):
                nursery.start_soon(one, n, scopes[n])
            await opened.appears("up0")
            await opened.appears("up1")
            scopes[1].cancel()
            (opened.work / "go").touch()
    assert texts == ["ok"]


@pytest.mark.parametrize(
    "body",
    [
        "import time\ntime.sleep(1e6)",
        "import threading\nthreading.Thread(target=time.sleep, args=(1e6,)).start()\n"
        "threading.Event().wait()",
        "import concurrent.futures as f\n"
        "with f.ThreadPoolExecutor() as pool: pool.submit(time.sleep, 1e6).result(timeout=1e6)",
        "import asyncio\nasyncio.run(asyncio.to_thread(time.sleep, 1e6))",
    ],
    ids=["sleep", "thread", "pool", "asyncio"],
)
async def test_the_timeout_waits_for_the_thread_that_it_gave_up(tmp_path: Path, body: str) -> None:
    """huggingface/smolagents #2197, #2464: no thread of the tool holds up its timeout."""
    limits = {"call_ms": 500, "grace_ms": 50}
    good = f"if args.get('good'):\n    {OK}\n"
    async with python_tool(tmp_path, good + body, before="import time", limits=limits) as opened:
        assert (await opened.call()).code == "timeout"
        assert opened.runtime.statistics().live_trees == 0
        assert (await opened.call("t", {"good": True})).text == "ok"


@pytest.mark.parametrize("simulate", TIERS)
async def test_a_timeout_is_reported_while_the_script_runs_on_and_eats_memory(
    tmp_path: Path, simulate: Sequence[str]
) -> None:
    """rocketride-org/rocketride-server #1920: a script in a child that grows until it is ended."""
    script = "x = []\nwhile True: x.append(bytearray(100_000))"
    body = f"import subprocess\nsubprocess.run(['/usr/bin/python3', '-c', {script!r}])\n{OK}"
    limits = {"call_ms": 600, "grace_ms": 50, "memory_bytes": 4 << 30}
    async with python_tool(tmp_path, body, simulate, limits=limits, **PROCESSES) as opened:
        result = await opened.call()
        assert result.code in ("timeout", "memory_limit")
        assert opened.named("python3") == []
        assert opened.runtime.statistics().live_trees == 0


@pytest.mark.parametrize("simulate", TIERS)
async def test_the_command_timed_out_and_continues(tmp_path: Path, simulate: Sequence[str]) -> None:
    """e2b-dev/E2B #500: what it would write later is never written."""
    loop = "echo up > up; while :; do echo tick >> ticks; done"
    async with shell(tmp_path, simulate) as opened:
        (row,) = await opened.bash({"command": f"sh -c '{loop}' & {loop}", "timeout_ms": 300})
        assert row["timed_out"] is True
        assert opened.named("sh", "bash") == []
        (opened.work / "ticks").unlink()
        assert [row["stdout"] for row in await opened.bash("ls")] == ["up\n"]


NATIVE = {
    "bigint": "let x = 3n; for (;;) x = x ** 9n;",
    "regex": "/^(a+)+$/.test('a'.repeat(99) + 'b');",
    "sort": "const a = Array(1e8).fill(0); for (;;) a.sort();",
}


@pytest.mark.parametrize("name", sorted(NATIVE))
async def test_the_timeout_is_ignored_inside_of_a_native_call(tmp_path: Path, name: str) -> None:
    """laverdet/isolated-vm #202: a call that never looks for an interrupt."""
    require_node()
    body = f"if (args.good) {JS_OK}\n{NATIVE[name]}"
    async with node_tool(tmp_path, body, limits={"call_ms": 700, "grace_ms": 50}) as opened:
        result = await opened.call()
        assert result.code in ("timeout", "memory_limit" if name in ("bigint", "sort") else "")
        assert opened.named("node") == []
        assert (await opened.call("t", {"good": True})).text == "ok"


@pytest.mark.parametrize("language", ["js", "py"])
async def test_a_timeout_that_is_too_short_leaves_a_catastrophic_state(
    tmp_path: Path, language: str
) -> None:
    """laverdet/isolated-vm #301: the shortest there is, again and again."""
    limits = {"call_ms": 1, "grace_ms": 1}
    if language == "js":
        require_node()
        opening = node_tool(tmp_path, "for (;;);", limits=limits)
    else:
        opening = python_tool(tmp_path, "while True: pass", limits=limits)
    async with opening as opened:
        codes = [(await opened.call()).code for _ in range(8)]
        assert set(codes) == {"timeout"}
        now = opened.runtime.statistics()
        assert (now.live_trees, now.pool.launcher_restarts) == (0, 0)


@pytest.mark.parametrize("simulate", TIERS)
async def test_an_address_space_limit_kills_wasm_and_the_first_fetch(
    tmp_path: Path, simulate: Sequence[str]
) -> None:
    """google/nsjail #76, #262, langbot-plugin-sdk #97, windmill #10132, VCPToolBox #370."""
    require_node()
    body = """
const module = new WebAssembly.Module(new Uint8Array([0, 97, 115, 109, 1, 0, 0, 0]));
new WebAssembly.Instance(module);
const memories = Array.from({ length: 4 }, () => new WebAssembly.Memory({ initial: 1 }));
const failed = (error) => error.cause?.code ?? String(error);
const seen = await fetch('http://127.0.0.1:9/').catch(failed);
const worker = new Worker('1', { eval: true });
const code = await new Promise((done) => worker.once('exit', done));
const value = [memories.length, typeof seen, /memory/i.test(seen), code];
return { content: [{ type: 'json', value }] };
"""
    before = "import { Worker } from 'node:worker_threads';"
    limits = {"memory_bytes": 256 << 20}
    async with node_tool(tmp_path, body, simulate, before=before, limits=limits) as opened:
        assert await opened.value() == [4, "string", False, 0]


BOMBS = {
    "objects": "const a = []; for (;;) a.push({ a: [1, 2, 3] });",
    "buffers": "const a = []; for (;;) a.push(Buffer.alloc(1 << 24, 1));",
    "typed arrays": "const a = []; for (;;) a.push(new Float64Array(1 << 21).fill(1));",
    "wasm": "const a = []; for (;;) {"
    " const m = new WebAssembly.Memory({ initial: 256 }); new Uint8Array(m.buffer).fill(1);"
    " a.push(m); }",
}


@pytest.mark.parametrize(
    ("name", "simulate"),
    [
        (name, ("no-userns", "no-cgroup")[: 2 * (index % 2)])
        for index, name in enumerate(sorted(BOMBS))
    ],
    ids=sorted(BOMBS),
)
async def test_memory_beside_the_heap_escapes_the_limit_and_one_tool_takes_the_others_along(
    tmp_path: Path, name: str, simulate: Sequence[str]
) -> None:
    """laverdet/isolated-vm #107, #186, #499, #527, vercel-labs/quickjs-wasi #30,
    google/gvisor #2433, #2533, #12838: named as memory with its evidence; a neighbour goes on.
    """
    require_node()
    work = tmp_path / "work"
    work.mkdir()
    write_tool(tmp_path, "bomb", f"export function handler() {{ {BOMBS[name]} }}")
    neighbour = (
        "import os, time\n"
        "def handler(args, context):\n"
        "    open('up', 'w').write('up')\n"
        "    while not os.path.exists('go'): time.sleep(0.005)\n"
        f"    {OK}\n"
    )
    write_tool(tmp_path, "neighbour", neighbour, language="python")
    limits = {"memory_bytes": 128 << 20}
    config = raw_exec.load_config(write_config(tmp_path, ["bomb", "neighbour"], limits=limits))
    texts: list[str] = []
    async with session(config, work, simulate) as opened:

        async def wait() -> None:
            texts.append((await opened.call("neighbour")).text)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait)
            await opened.appears("up")
            result = await opened.call("bomb")
            (work / "go").touch()
        evidence: Any = result.detail
        assert (result.code, bool(evidence)) == ("memory_limit", True), (result.text, evidence)
        assert opened.runtime.statistics().pool.launcher_restarts == 0
    assert texts == ["ok"]


@pytest.mark.parametrize("language", ["js", "py"])
async def test_nothing_limits_processor_time_and_memory(tmp_path: Path, language: str) -> None:
    """cloudflare/workerd #49: both are bounded without a sandbox of one's own around it."""
    limits = {"call_ms": 30_000, "grace_ms": 50, "memory_bytes": 128 << 20}
    if language == "js":
        require_node()
        grow = "const a = []; for (;;) a.push({ a: [1, 2, 3] });"
        opening = node_tool(tmp_path, f"if (args.spin) for (;;);\n{grow}", limits=limits)
    else:
        body = (
            "if args['spin']:\n    while True: pass\nx = []\nwhile True: x.append(bytearray(10**6))"
        )
        opening = python_tool(tmp_path, body, limits=limits)
    async with opening as opened:
        spun = await opened.call("t", {"spin": True}, timeout_seconds=0.5)
        assert spun.code == "timeout"
        grown = await opened.call("t", {"spin": False})
        assert grown.code == "memory_limit", grown.text
