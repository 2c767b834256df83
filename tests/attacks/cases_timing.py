"""Corpus §8: aborts, races, and a supervisor that is killed; driven from outside."""

# ruff: noqa: E501 - sources of handlers are data, and break where their language wants

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable

import psutil
import trio

import raw_exec
from tests.attacks import oracle
from tests.attacks.lab import GRACE_MS, Lab
from tests.attacks.model import TIERS, Case, Ran

__all__ = ["CASES"]

_POLITE = """
  await new Promise((done) => context.signal.addEventListener('abort', done));
  return json({ '=partial': 1 });
"""
_RUDE = "await sleep(60e3);"


async def _cancel_when(
    lab: Lab, case: Case, ran: Ran, ready: Callable[[], bool], arguments: dict[str, object]
) -> list[raw_exec.ToolResult]:
    """Dispatch, wait for a condition, cancel; return the outcome if it came first."""
    results: list[raw_exec.ToolResult] = []

    async def call() -> None:
        results.append(await lab.call(case.tool, seconds=5, w=lab.facts, **arguments))

    with trio.fail_after(20):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(call)
            while not ready() and not results:
                await trio.sleep(0)
            start = trio.current_time()
            nursery.cancel_scope.cancel()
    took = (trio.current_time() - start) * 1000
    allowed = GRACE_MS + oracle.EXTRA_MS * oracle.allowance()
    if took > allowed:
        ran.late.append(f"U2: the abort took {took:.0f} ms; {allowed:.0f} ms are allowed")
    return results


def _busy(lab: Lab) -> bool:
    stats = lab.runtime.statistics()
    return stats.calls_in_flight == 2 and stats.pool.live - stats.pool.idle == 2


async def _abort(lab: Lab, case: Case, ran: Ran) -> None:
    """Cancelled while the handler runs: an abort has no outcome but ``Cancelled``."""
    # Warm, so that a busy worker means a running handler.
    assert (await lab.call(case.tool, seconds=5, good=True)).text == "good"
    ran.results += await _cancel_when(lab, case, ran, lambda: _busy(lab), {})
    ran.code = "aborted" if not ran.results else str(ran.last.code)
    ran.results.clear()


async def _abort_early(lab: Lab, case: Case, ran: Ran) -> None:
    """Cancelled at many points of a cold start, two calls at once."""
    for ticks in (0, 1, 2, 3, 5, 8, 13, 21, 34, 55, 200, 1000):
        seen = 0

        def ready(limit: int = ticks) -> bool:
            nonlocal seen
            seen += 1
            return seen > limit

        async with trio.open_nursery() as nursery:
            nursery.start_soon(_cancel_when, lab, case, ran, ready, {})
            nursery.start_soon(_cancel_when, lab, case, ran, ready, {})
        problem = await lab.settle()
        if problem is not None:
            raise AssertionError(f"after {ticks} checkpoints: {problem}")
    ran.code = "aborted"


async def _race(lab: Lab, case: Case, ran: Ran) -> None:
    """A result and its deadline at the same millisecond: one outcome each time."""
    rounds = int(os.environ.get("RAW_EXEC_ATTACK_RACES", "60"))
    counts = {"result": 0, "timeout": 0, "aborted": 0}
    for index in range(rounds):
        if index % 3:
            result = await lab.call(case.tool, seconds=0.004, w=lab.facts, ms=4, n=index)
            ran.results = [result]
            value = result.content[0].get("value") if not result.is_error else None
            if value not in (None, {"=n": index}):
                ran.code, ran.text = "mixed", f"call {index} got {value}"
                return
            counts["timeout" if result.is_error else "result"] += 1
            if result.is_error and result.code != "timeout":
                ran.code, ran.text = str(result.code), result.text
                return
        else:
            with trio.move_on_after(0.004) as scope:
                await lab.call(case.tool, seconds=5, w=lab.facts, ms=4, n=index)
            counts["aborted" if scope.cancelled_caught else "result"] += 1
    ran.facts.update(counts)
    ran.results.clear()
    # No race was run where one side always came first.
    if sum(counts.values()) != rounds or not counts["timeout"] or not counts["aborted"]:
        ran.code, ran.text = "no race", f"{rounds} rounds ended as {counts}"


async def _flood(lab: Lab, case: Case, ran: Ran) -> None:
    """Many calls at once, all given up at once."""
    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            for index in range(200):
                nursery.start_soon(_forget, lab, case.tool, index)
            while lab.runtime.statistics().calls_in_flight < 201:
                await trio.sleep(0)
            await trio.sleep(0.1)
            nursery.cancel_scope.cancel()
    ran.code = "aborted"


async def _forget(lab: Lab, tool: str, index: int) -> None:
    await lab.call(tool, seconds=30, w=lab.facts, n=index, ms=60_000)


_SUPERVISOR = """
import sys, trio, raw_exec
async def main():
    config = raw_exec.load_config(sys.argv[1])
    tool, tier_words = sys.argv[3], [w for w in sys.argv[4].split(',') if w]
    async with raw_exec.open_runtime(config, cwd=sys.argv[2], simulate=tier_words,
                                     cache_dir=sys.argv[5]) as runtime:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(runtime.registry.dispatch, tool, {"w": {"mark": sys.argv[6]}})
            while not runtime.statistics().pool.live or runtime.statistics().pool.idle:
                await trio.sleep(0.01)
            await trio.sleep(0.3)
            print(runtime.statistics().launcher_pid, flush=True)
            await trio.sleep_forever()
trio.run(main)
"""


def _killer(victim: str) -> Callable[[Lab, Case, Ran], Awaitable[None]]:
    async def drive(lab: Lab, case: Case, ran: Ran) -> None:
        """Kill another supervisor (or stop its launcher first) in the middle of a call."""
        private = lab.world.base / "doomed"
        private.mkdir(exist_ok=True)
        config = lab.world.base / "config" / f"{lab.tier}-{lab.isolation}.json"
        command = [
            sys.executable, "-c", _SUPERVISOR, str(config), str(lab.work), case.tool,
            ",".join(TIERS[lab.tier]), str(lab.world.base / "cache"), lab.facts["mark"],
        ]  # fmt: skip
        env = {**os.environ, "TMPDIR": str(private), "PYTHONPATH": os.pathsep.join(sys.path)}
        process = subprocess.Popen(command, stdout=subprocess.PIPE, env=env)  # noqa: ASYNC220
        assert process.stdout is not None
        try:
            line = await trio.to_thread.run_sync(process.stdout.readline, abandon_on_cancel=True)
            launcher = psutil.Process(int(line))
            family = [launcher, *launcher.children(recursive=True)]
            if victim == "launcher":
                launcher.kill()
                await trio.sleep(0)
            process.send_signal(signal.SIGKILL)
            await trio.to_thread.run_sync(process.wait, abandon_on_cancel=True)
            await _gone(family, ran)
            left = [str(p) for p in private.glob("raw-exec-*/scratch-*/*")]
            if left and victim == "supervisor" and not ran.text:
                ran.code, ran.text = "left", f"scratch left: {left}"
        finally:
            process.kill()
            process.wait()
            process.stdout.close()

    return drive


async def _gone(family: list[psutil.Process], ran: Ran) -> None:
    deadline = time.monotonic() + oracle.allowance()
    alive = family
    while alive and time.monotonic() < deadline:
        await trio.sleep(0.01)
        alive = [p for p in alive if p.is_running() and oracle.lives(p)]
    if alive:
        ran.code, ran.text = "survived", f"alive a second later: {alive}"
        for process in alive:
            process.kill()


async def _clock(lab: Lab, case: Case, ran: Ran) -> None:
    """The wall clock jumps back and forth during a call."""
    real = time.time
    shift = [0.0]
    time.time = lambda: real() + shift[0]
    try:
        results: list[raw_exec.ToolResult] = []

        async def call() -> None:
            results.append(await lab.call(case.tool, seconds=case.timeout, w=lab.facts, ms=200))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(call)
            for jump in (1e9, -1e9, 0.0):
                await trio.sleep(0.03)
                shift[0] = jump
    finally:
        time.time = real
    ran.results += results
    ran.code = "ok" if not ran.last.is_error else str(ran.last.code)


_WAIT = """
        end = time.monotonic() + args.get('ms', 0) / 1000
        while time.monotonic() < end:
            time.sleep(min(0.001, max(0, end - time.monotonic())))
        report['=n'] = args.get('n')
"""

CASES: tuple[Case, ...] = (
    Case(
        "A01.js",
        "a handler that ignores the abort signal",
        "js",
        _RUDE,
        codes=("aborted",),
        drive=_abort,
    ),
    Case(
        "A01.py",
        "a Python handler that ignores it",
        "py",
        "time.sleep(60)",
        codes=("aborted",),
        drive=_abort,
    ),
    Case(
        "A01.timeout",
        "a handler that ignores the abort of its timeout",
        "js",
        _RUDE,
        codes=("timeout",),
        timeout=0.4,
    ),
    Case(
        "A02.js",
        "a handler that answers to its abort",
        "js",
        _POLITE,
        codes=("aborted",),
        drive=_abort,
    ),
    Case(
        "A02.timeout",
        "a handler that answers to its timeout",
        "js",
        _POLITE,
        codes=("timeout",),
        timeout=0.4,
        check=lambda ran: (
            "partial data was passed on" if "partial" in str(ran.last.content) else None
        ),
    ),
    Case(
        "A02.py",
        "a Python handler that answers to its abort",
        "py",
        "context.signal.wait()\nreport['=partial'] = 1",
        codes=("aborted",),
        drive=_abort,
    ),
    Case(
        "A02.flood",
        "a handler that floods the channel when aborted",
        "js",
        "context.signal.addEventListener('abort', () => { for (;;) fs.writeSync(4, Buffer.alloc(65536)); }); await sleep(1e6);",
        codes=("timeout", "worker_crashed"),
        timeout=0.4,
    ),
    Case(
        "A04.py",
        "results and aborts at the same millisecond",
        "py",
        _WAIT,
        drive=_race,
        timeout=5.0,
    ),
    Case(
        "A05.js",
        "aborts before, during and after a cold start",
        "js",
        _RUDE,
        codes=("aborted",),
        drive=_abort_early,
    ),
    Case(
        "A05.import",
        "aborts during an endless import",
        "js",
        "",
        before="await new Promise(() => {});",
        codes=("aborted",),
        drive=_abort_early,
        again=False,
    ),
    Case(
        "A06.py",
        "aborts at any checkpoint of a fork",
        "py",
        "time.sleep(60)",
        codes=("aborted",),
        drive=_abort_early,
    ),
    Case(
        "A07.js",
        "the supervisor is killed in the middle of a call",
        "js",
        "await sleep(60e3);",
        drive=_killer("supervisor"),
    ),
    Case(
        "A07.daemon",
        "the supervisor is killed while a daemon of a tool runs",
        "py",
        """
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                L.prctl(15, w['mark'].encode(), 0, 0, 0)
                time.sleep(999)
            os._exit(0)
        os.wait()
        time.sleep(60)
        """,
        profile="procs",
        drive=_killer("supervisor"),
        again=False,
    ),
    Case(
        "A07.launcher",
        "launcher and supervisor are killed in the middle of a call",
        "py",
        """
        if os.fork() == 0:
            os.setsid()
            L.prctl(15, w['mark'].encode(), 0, 0, 0)
            time.sleep(999)
        time.sleep(60)
        """,
        profile="procs",
        drive=_killer("launcher"),
        again=False,
    ),
    Case("A09.py", "the wall clock jumps", "py", _WAIT, drive=_clock),
    Case("A10.py", "200 calls given up at once", "py", _WAIT, codes=("aborted",), drive=_flood),
)
