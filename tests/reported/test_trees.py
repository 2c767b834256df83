"""What users reported about hanging children and orphans: a kill reaches everyone, always.

Each test has the name of the symptom that it looks for and must not find.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psutil
import pytest
import trio

from requires import require, require_node
from tests.reported.support import (
    OK,
    PROCESSES,
    TIERS,
    host_command,
    node_tool,
    python_command,
    python_tool,
    raw_command,
    running,
    session,
    shell,
    until,
)
from toolbox import footprint, js_config, py_config, write_config, write_tool

pytestmark = pytest.mark.slow

DAEMON = """
import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        time.sleep(999)
    os._exit(0)
os.wait()
"""


@pytest.mark.parametrize("simulate", TIERS)
@pytest.mark.parametrize(
    "holder",
    [
        "setsid sleep 999 &",
        "(trap '' TERM HUP INT; setsid sh -c 'while :; do sleep 999; done' & );",
    ],
    ids=["session", "deaf"],
)
async def test_a_timeout_that_kills_only_the_shell_leaves_descendants_holding_the_pipe(
    tmp_path: Path, simulate: Sequence[str], holder: str
) -> None:
    """openai/codex #4337: the turn goes on when the time is over, and nobody is left."""
    async with shell(tmp_path, simulate) as opened:
        slow = {"command": f"{holder} echo up; sleep 999", "timeout_ms": 300}
        (row,) = await opened.bash(slow)
        assert (row["timed_out"], row["stdout"]) == (True, "up\n")
        assert opened.named("sleep", "sh") == []
        (row,) = await opened.bash("echo next")
        assert row["stdout"] == "next\n"


async def test_the_time_limit_is_ignored_when_the_command_starts_a_server(tmp_path: Path) -> None:
    """openai/codex #5229: a real HTTP server, started and waited for as people do it."""
    sandbox = {
        "profiles": {"serves": {"extends": "shell", "network": "loopback", "tier": "namespaces"}},
        "tools": {"builtin/bash": "serves"},
    }
    async with shell(tmp_path, sandbox=sandbox) as opened:
        server = (
            "from http.server import BaseHTTPRequestHandler as Handler, HTTPServer\n"
            "s = HTTPServer(('127.0.0.1', 0), Handler)\n"
            "print('serving', flush=True); s.serve_forever()"
        )
        command = {"command": f"{python_command(server)} & wait", "timeout_ms": 1500}
        result = await opened.call("bash", {"commands": [command]})
        require("userns", result.code != "sandbox_unavailable", result.text)
        (row,) = result.content[0]["value"]["commands"]
        assert (row["timed_out"], row["stdout"]) == (True, "serving\n"), row
        assert opened.named("python3") == []


@pytest.mark.parametrize("simulate", TIERS)
async def test_a_process_substitution_leaves_tee_and_timeout_behind(
    tmp_path: Path, simulate: Sequence[str]
) -> None:
    """openai/codex #7846: the exit is seen although the substitution never ends."""
    command = "exec > >(tee copy; exec sleep 999) 2>&1; timeout 999 sleep 999 & echo done; exit 3"
    async with shell(tmp_path, simulate) as opened:
        (row,) = await opened.bash(command)
        assert (row["exit_code"], row["timed_out"]) == (3, False)
        assert opened.named("tee", "timeout", "sleep") == []


async def test_background_terminals_never_time_out_and_are_never_found_again(
    tmp_path: Path,
) -> None:
    """openai/codex #41841, #8740: a job has a limit, and a list finds the one forgotten."""
    async with shell(tmp_path) as opened:

        async def process(**args: Any) -> Any:
            return await opened.value("process", args)

        await process(action="start", command="exec sleep 999", label="limited", timeout_ms=50)
        await process(action="start", command="exec sleep 999", label="forgotten")

        async def states() -> dict[str, str]:
            jobs = (await process(action="list"))["jobs"]
            return {job["label"]: job["state"] for job in jobs}

        while (await states())["limited"] in ("starting", "running", "stopping"):
            await trio.lowlevel.checkpoint()
        assert await states() == {"limited": "timed_out", "forgotten": "running"}
        (found,) = [
            job for job in (await process(action="list"))["jobs"] if job["label"] == "forgotten"
        ]
        stopped = (await process(action="stop", id=found["id"]))["job"]
        assert (stopped["state"], opened.named("sleep")) == ("stopped", [])


@pytest.mark.parametrize("simulate", TIERS)
async def test_a_kill_ends_one_process_and_its_children_survive(
    tmp_path: Path, simulate: Sequence[str]
) -> None:
    """hashicorp/go-plugin #136: children, grandchildren and daemons of a handler."""
    body = (
        "import subprocess\n"
        + DAEMON
        + "subprocess.Popen(['/bin/sh', '-c', 'sleep 999 & sleep 999 & wait'])\n"
        "open('up', 'w').write('up')\n"
        "time.sleep(999)"
    )
    async with python_tool(tmp_path, body, simulate, **PROCESSES) as opened:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(opened.call)
            await opened.appears("up")
            await until(lambda: len(opened.named("sleep")) == 2)
            before = opened.family()
            nursery.cancel_scope.cancel()
        assert opened.named("sleep", "sh") == []
        # What stays is the process that Python workers are forked from.
        assert len(running(before)) == 1


ORPHANS = {
    "js": (
        "import fs from 'node:fs';\n"
        "process.on('uncaughtException', () => {}); process.on('SIGPIPE', () => {});\n",
        "fs.writeFileSync('up', 'up');\n"
        "for (;;) { try { fs.writeSync(1, 'x'); console.log('x'); } catch {} }",
    ),
    "py": (
        "import os, signal\nfor n in (1, 2, 13, 15): signal.signal(n, signal.SIG_IGN)\n",
        "open('up', 'w').write('up')\n"
        "while True:\n"
        "    try:\n        os.write(1, b'x')\n"
        "    except BaseException:\n        pass",
    ),
}
HOST = """
import os, sys, trio, raw_exec
async def main():
    config = raw_exec.load_config(sys.argv[1])
    async with raw_exec.open_runtime(config, cwd=sys.argv[2], simulate=sys.argv[4:]) as runtime:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(runtime.registry.dispatch, sys.argv[3], {})
            while not os.path.exists(sys.argv[2] + "/up"):
                await trio.sleep(0.005)
            print(runtime.statistics().launcher_pid, flush=True)
            await trio.sleep_forever()
trio.run(main)
"""


async def _survivors_of_a_killed_host(command: list[str]) -> list[psutil.Process]:
    """Start a host, kill it in the middle of a call, and wait for the end of its family."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE)  # noqa: ASYNC220
    try:
        assert process.stdout is not None
        with trio.fail_after(60):
            line = await trio.to_thread.run_sync(process.stdout.readline)
            launcher = psutil.Process(int(line))
            family = [launcher, *launcher.children(recursive=True)]
            assert len(family) >= 2
            process.kill()
            process.wait()
            with trio.move_on_after(5):
                await until(lambda: running(family) == [])
        return running(family)
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


@pytest.mark.parametrize(
    ("language", "simulate"),
    [("js", ()), ("js", ("no-userns", "no-cgroup")), ("py", ("no-userns", "no-cgroup"))],
    ids=["js-best", "js-baseline", "py-baseline"],
)
async def test_an_orphan_spins_because_every_write_fails_with_epipe(
    tmp_path: Path, language: str, simulate: Sequence[str]
) -> None:
    """web-infra-dev/midscene PR #2157, hashicorp/go-plugin #114: it ends with its host."""
    before, body = ORPHANS[language]
    work = tmp_path / "work"
    work.mkdir()
    if language == "js":
        require_node()
        js_config(tmp_path, body, before=before, limits={"log_bytes": 64 << 20})
    else:
        py_config(tmp_path, body, before=before, limits={"log_bytes": 64 << 20})
    command = host_command(HOST, str(tmp_path / "config.json"), str(work), "t", *simulate)
    assert await _survivors_of_a_killed_host(command) == []


@pytest.mark.parametrize("simulate", TIERS)
async def test_the_timer_dies_with_the_host_and_orphans_the_group(
    tmp_path: Path, simulate: Sequence[str]
) -> None:
    """andymai/brepjs PR #1380: a command with a limit, whose host is killed before it."""
    work = tmp_path / "work"
    work.mkdir()
    source = (
        "import subprocess\n"
        "def handler(args, context):\n"
        "    subprocess.run(['/bin/sh', '-c', 'setsid sleep 999 & echo up > up; sleep 999'],"
        " timeout=300)\n"
    )
    write_tool(tmp_path, "t", source, language="python")
    write_config(tmp_path, ["t"], **PROCESSES)
    command = host_command(HOST, str(tmp_path / "config.json"), str(work), "t", *simulate)
    assert await _survivors_of_a_killed_host(command) == []


WRAPPER = """
const { spawn } = require('child_process');
for (const s of ['SIGTERM', 'SIGINT', 'SIGHUP']) process.on(s, () => process.exit(0));
spawn('sh', ['-c', 'sleep 999; :'], { stdio: 'inherit' });
setTimeout(() => require('fs').writeFileSync('up', 'up'), 50);
"""


@pytest.mark.parametrize("simulate", TIERS)
@pytest.mark.parametrize("how", ["timeout", "cancel"])
async def test_signals_stop_at_npx_and_orphan_the_server(
    tmp_path: Path, how: str, simulate: Sequence[str]
) -> None:
    """ihor-sokoliuk/mcp-searxng PR #60, andymai/brepjs PR #1380: the wrapper obeys, alone."""
    require_node()
    async with shell(tmp_path, simulate) as opened:
        (opened.work / "npx.cjs").write_text(WRAPPER)
        command: dict[str, Any] = {"command": "OPENSSL_CONF=/dev/null node npx.cjs"}
        if how == "timeout":
            (row,) = await opened.bash({**command, "timeout_ms": 900})
            assert row["timed_out"] is True
        else:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(opened.bash, command)
                await opened.appears("up")
                nursery.cancel_scope.cancel()
        assert opened.named("node", "sleep", "sh") == []


async def test_a_ci_job_waits_for_children_that_hold_its_output(tmp_path: Path) -> None:
    """rshade/finfocus #1231: who runs ``raw`` with pipes gets their end, not a hang."""
    work = tmp_path / "work"
    work.mkdir()
    body = DAEMON.strip() + "\nimport subprocess\nsubprocess.Popen(['sleep', '999'])\n" + OK
    py_config(tmp_path, body, **PROCESSES)
    command = raw_command("--config", str(tmp_path / "config.json"), "tools", "call", "t")
    with trio.fail_after(60):
        done = await trio.run_process(
            command,
            capture_stdout=True,
            capture_stderr=True,
            check=False,
            cwd=work,
        )
    assert (done.returncode, done.stdout) == (0, b"ok\n"), done.stderr


@pytest.mark.parametrize("language", ["js", "py"])
async def test_leaving_the_runtime_never_returns(tmp_path: Path, language: str) -> None:
    """modelcontextprotocol/python-sdk #360: whatever a warm worker is busy with."""
    before = footprint()
    if language == "js":
        require_node()
        spin = "new Worker('for (;;);', { eval: true }); process.on('SIGTERM', () => {});"
        opening = node_tool(
            tmp_path,
            f"{spin} return {{ content: [{{ type: 'text', text: 'ok' }}] }};",
            before="import { Worker } from 'node:worker_threads';",
        )
    else:
        body = (
            "import signal, threading, time\n"
            "signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())\n"
            "threading.Thread(target=time.sleep, args=(999,)).start()\n" + OK
        )
        opening = python_tool(tmp_path, body)
    async with opening as opened:
        assert (await opened.call()).text == "ok"
    assert footprint() == before


@pytest.mark.parametrize("simulate", TIERS)
async def test_a_tree_kill_does_nothing_once_the_leader_was_reaped(
    tmp_path: Path, simulate: Sequence[str]
) -> None:
    """modelcontextprotocol/python-sdk PR #2773: the leader is gone, a child has its pipes."""
    body = "import os, time\nif os.fork() == 0:\n    os.setsid()\n    time.sleep(999)\nos._exit(3)"
    async with python_tool(tmp_path, body, simulate, **PROCESSES) as opened:
        result = await opened.call()
        assert result.code == "worker_crashed"
        assert "status 3" in result.text
        await until(lambda: len(opened.family()) <= 1)
        assert opened.runtime.statistics().live_trees == 0


async def test_a_cancel_deadlocks_the_shutdown(tmp_path: Path) -> None:
    """modelcontextprotocol/python-sdk PR #2773: cancelled while leaving and while calling."""
    before = footprint()
    work = tmp_path / "work"
    work.mkdir()
    config = py_config(tmp_path, "open('up', 'w').write('up')\nwhile True: pass")
    with trio.fail_after(60):
        async with trio.open_nursery() as nursery, session(config, work) as opened:
            nursery.start_soon(opened.call)
            await opened.appears("up")
            nursery.cancel_scope.cancel()
    assert footprint() == before


@pytest.mark.parametrize("simulate", TIERS)
@pytest.mark.parametrize("limit", ["handler", "cancel"])
async def test_the_call_timed_out_and_the_subprocess_it_started_runs_on(
    tmp_path: Path, limit: str, simulate: Sequence[str]
) -> None:
    """noxdafox/pebble #62: what a task started ends with the task."""
    body = "import subprocess\nsubprocess.run(['/bin/sh', '-c', 'echo up > up; sleep 999; :'])"
    limits = {"call_ms": 700 if limit == "handler" else 60_000, "grace_ms": 50}
    async with python_tool(tmp_path, body, simulate, limits=limits, **PROCESSES) as opened:
        if limit == "handler":
            assert (await opened.call()).code == "timeout"
        else:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(opened.call)
                await opened.appears("up")
                nursery.cancel_scope.cancel()
        assert opened.named("sh", "sleep") == []


@pytest.mark.parametrize("simulate", TIERS)
async def test_a_worker_is_reported_as_exited_while_it_spins(
    tmp_path: Path, simulate: Sequence[str]
) -> None:
    """microsoft/vscode #194477: it closes every pipe to look gone, and goes on."""
    require_node()
    before = "import fs from 'node:fs';"
    body = "for (const fd of [1, 2, 3, 4, 5]) try { fs.closeSync(fd) } catch {}\nfor (;;);"
    async with node_tool(tmp_path, body, simulate, before=before) as opened:
        result = await opened.call()
        assert result.code == "worker_crashed"
        assert opened.runtime.statistics().live_trees == 0
        assert opened.named("node") == []


STUCK = {
    "wait": "Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);",
    "regex": "/^(a+)+$/.test('a'.repeat(60) + 'b');",
}


@pytest.mark.parametrize("name", sorted(STUCK))
async def test_a_worker_thread_can_not_be_terminated(tmp_path: Path, name: str) -> None:
    """tinylibs/tinypool #49, #54, vitest-dev/vitest #2008: then the process is killed."""
    require_node()
    body = (
        "if (args.good) return { content: [{ type: 'text', text: 'ok' }] };\n"
        f"const worker = new Worker({STUCK[name]!r}, {{ eval: true }});\n"
        "await new Promise((up) => worker.once('online', up));\n"
        f"{STUCK[name]}\n"
        "await worker.terminate();"
    )
    before = "import { Worker } from 'node:worker_threads';"
    async with node_tool(tmp_path, body, before=before, limits={"call_ms": 800}) as opened:
        assert (await opened.call()).code == "timeout"
        assert opened.named("node") == []
        assert (await opened.call("t", {"good": True})).text == "ok"


async def test_a_service_manager_signals_the_workers_first_and_they_are_reported_broken(
    tmp_path: Path,
) -> None:
    """richardsheridan/trio-parallel #348: SIGTERM for all at once is one quiet end."""
    work = tmp_path / "work"
    work.mkdir()
    py_config(tmp_path, "import time\nopen('up', 'w').write('up')\ntime.sleep(999)")
    command = raw_command("--config", str(tmp_path / "config.json"), "tools", "call", "t")
    process = subprocess.Popen(  # noqa: ASYNC220
        command, cwd=work, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        with trio.fail_after(60):
            await until(lambda: (work / "up").exists())
            host = psutil.Process(process.pid)
            family = host.children(recursive=True)
            for member in [*reversed(family), host]:
                os.kill(member.pid, signal.SIGTERM)
            out, err = await trio.to_thread.run_sync(process.communicate)
            assert (process.returncode, out) == (130, "")
            assert err == "error: interrupted; nothing is left running\n"
            assert running(family) == []
    finally:
        process.kill()
        process.wait()
