"""What users reported about polluted protocols, broken pipes, full pipes and lost sandboxes.

Each test has the name of the symptom that it looks for and must not find.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import psutil
import pytest
import trio

import raw_exec
from requires import require_node
from tests.reported.support import OK, node_tool, python_tool, raw_command, session, until
from toolbox import footprint, write_config, write_tool

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("language", ["js", "py"])
async def test_logs_on_stdout_corrupt_the_protocol_and_the_session_is_dropped(
    tmp_path: Path, language: str
) -> None:
    """hurttlocker/o8 #1541, mcp-hangar #563, AgentDeskAI/browser-tools-mcp #239,
    microsoft/azure-devops-mcp #147: at import and in the call, through every way to print.
    """
    frame = '{"jsonrpc":"2.0","id":1,"result":{}}'
    if language == "js":
        require_node()
        say = f"console.log({frame!r}); process.stdout.write('\\0\\u0001\\n'); console.error('e');"
        opening = node_tool(
            tmp_path, f"{say} return {{ content: [{{ type: 'text', text: 'ok' }}] }};", before=say
        )
    else:
        say = f"import os\nprint({frame!r})\nos.write(1, b'\\0\\x01\\n')\n"
        opening = python_tool(tmp_path, say + OK, before=say)
    async with opening as opened:
        results = [await opened.call() for _ in range(3)]
        assert [(result.text, result.is_error) for result in results] == [("ok", False)] * 3
        assert all(frame in result.logs["stdout"] for result in results)
        assert [result.usage["worker"] for result in results[1:]] == ["warm"] * 2


async def test_what_a_tool_prints_gets_into_the_output_of_the_command_line(tmp_path: Path) -> None:
    """microsoft/azure-devops-mcp #147: ``raw --json`` prints one value, the tool's words in it."""
    import json

    work = tmp_path / "work"
    work.mkdir()
    source = f"print('loading')\ndef handler(args, context):\n    print('calling')\n    {OK}\n"
    write_tool(tmp_path, "t", source, language="python")
    path = write_config(tmp_path, ["t"])
    command = raw_command("--json", "--config", str(path), "tools", "call", "t")
    with trio.fail_after(60):
        done = await trio.run_process(
            command, capture_stdout=True, capture_stderr=True, check=False, cwd=work
        )
    assert (done.returncode, done.stderr) == (0, b"")
    assert json.loads(done.stdout)["content"] == [{"type": "text", "text": "ok"}]


async def test_the_client_vanishes_and_a_broken_pipe_is_an_unhandled_crash(tmp_path: Path) -> None:
    """modelcontextprotocol/typescript-sdk #1564, #1568: who read the output has gone away."""
    work = tmp_path / "work"
    work.mkdir()
    body = "return {'content': [{'type': 'text', 'text': 'x' * 1_000_000}]}"
    source = f"def handler(args, context):\n    {body}\n"
    write_tool(tmp_path, "t", source, language="python")
    path = write_config(tmp_path, ["t"])
    read_end, write_end = os.pipe()
    os.close(read_end)
    try:
        with trio.fail_after(60):
            done = await trio.run_process(
                raw_command("--config", str(path), "tools", "call", "t"),
                stdout=write_end,
                capture_stderr=True,
                check=False,
                cwd=work,
            )
    finally:
        os.close(write_end)
    assert b"Traceback" not in done.stderr
    assert b"Exception" not in done.stderr


async def test_a_child_died_before_the_first_write_and_the_host_crashes(tmp_path: Path) -> None:
    """earendil-works/pi #2928: it ends at import, while 20 MB are being written to it."""
    before = footprint()
    work = tmp_path / "work"
    work.mkdir()
    good = f"def handler(args, context):\n    {OK}\n"
    write_tool(tmp_path, "good", good, language="python")
    for name, ending in (("early", "os._exit(0)"), ("late", "")):
        source = f"import os\n{ending}\ndef handler(args, context):\n    os._exit(0)\n"
        write_tool(tmp_path, name, source, language="python")
    config = raw_exec.load_config(write_config(tmp_path, ["early", "late", "good"]))
    async with session(config, work) as opened:
        for name in ("early", "late"):
            result = await opened.call(name, {"text": "x" * 20_000_000})
            assert (result.code, result.is_error) == ("worker_crashed", True)
        assert (await opened.call("good")).text == "ok"
    assert footprint() == before


@pytest.mark.parametrize("language", ["js", "py"])
async def test_big_results_fill_the_pipe_and_a_killed_worker_deadlocks_the_others(
    tmp_path: Path, language: str
) -> None:
    """noxdafox/pebble #147, #163, #119, #69: eight answers of a megabyte, half given up."""
    size = 1_000_000
    if language == "js":
        require_node()
        body = f"return {{ content: [{{ type: 'text', text: String(args.n).repeat({size}) }}] }};"
        opening = node_tool(tmp_path, body)
    else:
        body = f"return {{'content': [{{'type': 'text', 'text': str(args['n']) * {size}}}]}}"
        opening = python_tool(tmp_path, body)
    async with opening as opened:
        texts: dict[int, str] = {}

        async def one(n: int, scope: trio.CancelScope) -> None:
            with scope:
                result = await opened.call("t", {"n": n}, max_output_bytes=2 * size)
                texts[n] = result.text

        async with trio.open_nursery() as nursery:
            scopes = [trio.CancelScope() for _ in range(8)]
            for n, scope in enumerate(scopes):
                nursery.start_soon(one, n, scope)
            await until(lambda: len(texts) >= 1)
            for scope in scopes[1::2]:
                scope.cancel()
        whole = {n: str(n) * size for n in range(8)}
        assert set(range(0, 8, 2)) <= set(texts)
        assert all(text == whole[n] for n, text in texts.items())
        again = await opened.call("t", {"n": 9}, max_output_bytes=2 * size)
        assert again.text == "9" * size


@pytest.mark.parametrize(
    ("fault", "code"),
    [("killed launcher", "worker_crashed"), ("stopped launcher", "timeout"),
     ("stopped worker", "timeout"), ("stopped zygote", "timeout")],
)  # fmt: skip
async def test_a_lost_sandbox_hangs_its_caller(tmp_path: Path, fault: str, code: str) -> None:
    """e2b-dev/E2B #1128: whatever went silent, the caller gets an outcome and can go on."""
    body = (
        f"import time\nif args.get('good'):\n    {OK}\nopen('up', 'w').write('up')\ntime.sleep(999)"
    )
    limits = {"call_ms": 1000, "grace_ms": 50}
    results: list[raw_exec.ToolResult] = []
    async with python_tool(tmp_path, body, limits=limits) as opened:

        async def one(**args: Any) -> None:
            results.append(await opened.call("t", args))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(one)
            await opened.appears("up")
            pid = opened.runtime.statistics().launcher_pid
            assert pid is not None
            # The process that Python workers are forked from is the launcher's first child.
            zygote = min(psutil.Process(pid).children(), key=psutil.Process.create_time)
            if fault == "stopped worker":
                for process in opened.family():
                    if process != zygote:
                        process.suspend()
            elif fault == "stopped zygote":
                zygote.suspend()
            else:
                os.kill(pid, signal.SIGKILL if "killed" in fault else signal.SIGSTOP)
        (result,) = results
        assert (result.code, result.is_error) == (code, True)
        if fault == "stopped zygote":
            lost = await opened.call("t", {"good": True})
            assert (lost.code, "set-up took over" in lost.text) == ("sandbox_unavailable", True)
        assert (await opened.call("t", {"good": True})).text == "ok"
