"""Faults of the supervisor's side: cancelled, killed, stopped, its launcher killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
import trio

import raw_exec
from requires import require_node
from toolbox import footprint, js_config, write_config, write_tool

SLOW = """
if (args.good) return { content: [{ type: 'text', text: 'ok' }] };
if (args.polite) {
  await new Promise((done) => context.signal.addEventListener('abort', done));
  return { content: [{ type: 'text', text: 'partial' }] };
}
await new Promise(() => {});
"""


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [{}, {"polite": True}], ids=["ignores", "honours"])
async def test_a_cancelled_call_is_dead_before_the_scope_ends(
    tmp_path: Path, arguments: dict[str, bool]
) -> None:
    """Corpus A01, A02: after a cancel the tree is gone and the next call works."""
    require_node()
    config = js_config(tmp_path, SLOW, limits={"grace_ms": 200})
    before = footprint()
    with trio.fail_after(60):
        async with raw_exec.open_runtime(config, cwd=tmp_path) as runtime:
            call = runtime.registry.dispatch
            assert (await call("t", {"good": True})).text == "ok"
            launcher = psutil.Process(runtime.statistics().launcher_pid)
            with trio.CancelScope() as scope:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(call, "t", arguments)
                    await _until_busy(runtime)
                    scope.cancel()
            assert runtime.statistics().live_trees == 0
            # What is left is the process that Python workers are forked from.
            assert len(launcher.children(recursive=True)) == 1
            assert runtime.statistics().pool.retired == {"aborted": 1}
            assert (await call("t", {"good": True})).text == "ok"
    assert footprint() == before


async def _until_busy(runtime: raw_exec.Runtime) -> None:
    """Wait until one call has its worker and nothing is idle."""
    while True:
        now = runtime.statistics()
        if now.live_trees and now.pool.started and not now.pool.idle:
            return
        await trio.sleep(0)


@pytest.mark.slow
async def test_a_call_may_be_cancelled_at_any_checkpoint(tmp_path: Path) -> None:
    """Corpus A06: cancelled at the n-th checkpoint for many n, nothing is ever left."""
    require_node()
    config = js_config(tmp_path, SLOW, limits={"grace_ms": 20})
    before = footprint()
    with trio.fail_after(110):
        async with raw_exec.open_runtime(config, cwd=tmp_path) as runtime:
            for ticks in (0, 1, 2, 3, 4, 5, 6, 8, 10, 14, 20, 40, 80):
                with trio.CancelScope() as scope:
                    async with trio.open_nursery() as nursery:
                        nursery.start_soon(runtime.registry.dispatch, "t", {})
                        for _ in range(ticks):
                            await trio.lowlevel.checkpoint()
                        scope.cancel()
                assert runtime.statistics().calls_in_flight == 0
            assert (await runtime.registry.dispatch("t", {"good": True})).text == "ok"
            pool = runtime.statistics().pool
            assert (pool.live, pool.idle) == (1, 1)
    assert footprint() == before


@pytest.mark.slow
async def test_many_calls_share_few_workers(tmp_path: Path) -> None:
    """More callers than workers: every call has its own outcome, none is mixed up."""
    require_node()
    body = "return { content: [{ type: 'json', value: args.n }] };"
    config = js_config(tmp_path, body, limits={"max_workers": 3})
    seen: dict[int, int] = {}

    async with raw_exec.open_runtime(config, cwd=tmp_path) as runtime:

        async def one(n: int) -> None:
            seen[n] = (await runtime.registry.dispatch("t", {"n": n})).content[0]["value"]

        with trio.fail_after(60):
            async with trio.open_nursery() as nursery:
                for n in range(60):
                    nursery.start_soon(one, n)
        assert runtime.statistics().pool.live <= 3
    assert seen == {n: n for n in range(60)}


@pytest.mark.slow
async def test_two_tools_take_turns_in_one_place(tmp_path: Path) -> None:
    """With room for one worker, a worker of the other tool makes room."""
    require_node()
    for name in ("one", "two"):
        body = f"return {{ content: [{{ type: 'text', text: '{name}' }}] }};"
        write_tool(tmp_path, name, f"export async function handler() {{ {body} }}")
    path = write_config(tmp_path, ["one", "two"], limits={"max_workers": 1})
    async with raw_exec.open_runtime(raw_exec.load_config(path), cwd=tmp_path) as runtime:
        with trio.fail_after(60):
            texts = [
                (await runtime.registry.dispatch(name, {})).text
                for name in ("one", "two", "one", "two")
            ]
        assert runtime.statistics().pool.retired == {"made room": 3}
    assert texts == ["one", "two", "one", "two"]


@pytest.mark.slow
async def test_a_killed_launcher_loses_no_call_silently(tmp_path: Path) -> None:
    """In-flight calls end as worker_crashed; the next call gets a new launcher."""
    require_node()
    config = js_config(tmp_path, SLOW)
    before = footprint()
    results: list[raw_exec.ToolResult] = []

    async with raw_exec.open_runtime(config, cwd=tmp_path) as runtime:

        async def one() -> None:
            results.append(await runtime.registry.dispatch("t", {}))

        with trio.fail_after(60):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(one)
                await _until_busy(runtime)
                pid = runtime.statistics().launcher_pid
                assert pid is not None
                os.kill(pid, signal.SIGKILL)
            (result,) = results
            assert (result.code, result.detail["launcher"]) == ("worker_crashed", "died")
            assert (await runtime.registry.dispatch("t", {"good": True})).text == "ok"
            assert runtime.statistics().pool.launcher_restarts == 1
    assert footprint() == before


@pytest.mark.slow
async def test_a_warm_worker_killed_while_idle_is_not_used(tmp_path: Path) -> None:
    """Corpus S19: the next call gets a healthy worker."""
    require_node()
    config = js_config(tmp_path, SLOW)
    async with raw_exec.open_runtime(config, cwd=tmp_path) as runtime:
        with trio.fail_after(60):
            assert (await runtime.registry.dispatch("t", {"good": True})).text == "ok"
            launcher = psutil.Process(runtime.statistics().launcher_pid)
            family = launcher.children(recursive=True)
            for process in family:
                process.kill()
            _gone, alive = psutil.wait_procs(family, timeout=5)
            assert alive == []
            assert (await runtime.registry.dispatch("t", {"good": True})).text == "ok"


SCRIPT = """
import sys, trio, raw_exec
async def main():
    config = raw_exec.load_config(sys.argv[1])
    async with raw_exec.open_runtime(config, cwd=sys.argv[2]) as runtime:
        assert (await runtime.registry.dispatch("t", {"good": True})).text == "ok"
        async with trio.open_nursery() as nursery:
            nursery.start_soon(runtime.registry.dispatch, "t", {})
            while runtime.statistics().pool.idle:
                await trio.sleep(0)
            print(runtime.statistics().launcher_pid, flush=True)
            await trio.sleep_forever()
trio.run(main)
"""


@pytest.mark.slow
async def test_no_worker_survives_a_killed_supervisor(tmp_path: Path) -> None:
    """Corpus A07: SIGKILL mid-call; the launcher, every worker and all scratch are gone."""
    require_node()
    js_config(tmp_path, SLOW)
    private = tmp_path / "tmp"
    private.mkdir()
    command = [sys.executable, "-c", SCRIPT, str(tmp_path / "config.json"), str(tmp_path)]
    env = {**os.environ, "TMPDIR": str(private)}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, env=env)  # noqa: ASYNC220
    try:
        assert process.stdout is not None
        pid = int(process.stdout.readline())
        launcher = psutil.Process(pid)
        family = [launcher, *launcher.children(recursive=True)]
        assert len(family) >= 2
        process.kill()
        process.wait()
        _gone, alive = psutil.wait_procs(family, timeout=1.0)
        assert [p for p in alive if p.status() != psutil.STATUS_ZOMBIE] == []
        assert list(private.glob("raw-exec-*/scratch-*")) == []
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


@pytest.mark.slow
async def test_a_stopped_supervisor_goes_on_where_it_was(tmp_path: Path) -> None:
    """SIGSTOP and SIGCONT cost time and nothing else."""
    require_node()
    body = (
        "await new Promise((r) => setTimeout(r, 50));"
        "return { content: [{ type: 'text', text: 'ok' }] };"
    )
    js_config(tmp_path, body)
    script = SCRIPT.split("        assert")[0] + (
        "        print('ready', flush=True)\n"
        "        for _ in range(20):\n"
        "            assert (await runtime.registry.dispatch('t', {})).text == 'ok'\n"
        "        print('done', flush=True)\n"
        "trio.run(main)\n"
    )
    command = [sys.executable, "-c", script, str(tmp_path / "config.json"), str(tmp_path)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)  # noqa: ASYNC220
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        for _ in range(3):
            process.send_signal(signal.SIGSTOP)
            while psutil.Process(process.pid).status() != psutil.STATUS_STOPPED:
                await trio.sleep(0)
            process.send_signal(signal.SIGCONT)
            await trio.sleep(0.05)
        out, _ = process.communicate(timeout=60)
        assert (process.returncode, out) == (0, "done\n")
    finally:
        process.kill()
        process.wait()
