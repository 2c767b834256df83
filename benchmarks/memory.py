"""What an idle worker costs: proportional set size beside a bare Node process."""

from __future__ import annotations

from contextlib import ExitStack

import psutil
import trio

from raw_exec import Runtime

from .bare_echo import EchoProcess
from .claims import Bench, BenchmarkFailed, Claim
from .host import pss_bytes
from .measure import Contestant, Round, interleave_into
from .report import Goal, Section, ratio_goal
from .workspace import ARGUMENTS, ECHO, PYTHON_ECHO, call_tool, open_bench_runtime, write_workspace

BASE = "bare Node, blocked in a read"
NODE = "raw_exec Node worker"
NODE_TREE = "raw_exec Node worker and what keeps it"
PYTHON = "raw_exec Python worker"
PYTHON_TREE = "raw_exec Python worker and what keeps it"
_MIB = 1024 * 1024


async def run(bench: Bench, section: Section) -> None:
    """Fill the table."""
    space = write_workspace(bench, "memory", {"plain": ECHO, "python": PYTHON_ECHO})
    with ExitStack() as stack:
        bare = stack.enter_context(EchoProcess(raw=True))
        await bare.exchange(b"ready")
        async with open_bench_runtime(bench, space) as runtime:
            await call_tool(runtime, "plain", ARGUMENTS)
            launcher = _launcher(runtime)
            node = _below(launcher, leaving_out=set())
            await call_tool(runtime, "python", ARGUMENTS)
            python = _below(launcher, leaving_out=set(node))
            contestants = [
                Contestant(BASE, _reading([bare.pid])),
                Contestant(NODE, _reading(node[-1:])),
                Contestant(NODE_TREE, _reading(node)),
                Contestant(PYTHON, _reading(python[-1:])),
                Contestant(PYTHON_TREE, _reading(python)),
                Contestant("the launcher", _reading([launcher])),
            ]
            await interleave_into(section, contestants, rounds=3, calls=1, scale=1 / _MIB)
            section.facts["node_processes"] = len(node)
            section.facts["python_processes"] = len(python)
            for _ in range(bench.size(1000, 200)):
                await call_tool(runtime, "plain", ARGUMENTS)
            section.facts["node_worker_mib_after_many_calls"] = pss_bytes(node[-1]) / _MIB
    section.notes.append(
        "each worker is idle after one call; shared pages are divided by their users, and "
        "other Node and Python processes on the machine share some"
    )


def _launcher(runtime: Runtime) -> int:
    pid = runtime.statistics().launcher_pid
    if pid is None:
        raise BenchmarkFailed("the runtime has no launcher after a call")
    return pid


def _below(launcher: int, *, leaving_out: set[int]) -> list[int]:
    """Return the processes under the launcher, a worker after what keeps it."""
    children = psutil.Process(launcher).children(recursive=True)
    found = [child.pid for child in children if child.pid not in leaving_out]
    if not found:
        raise BenchmarkFailed("no worker was found under the launcher")
    return found


def _reading(pids: list[int]) -> Round:
    async def run(calls: int) -> list[float]:
        await trio.lowlevel.checkpoint()
        return [float(sum(pss_bytes(pid) for pid in pids)) for _ in range(calls)]

    return run


def judge(section: Section) -> list[Goal]:
    """Derive the goals."""
    python = section.row(PYTHON)
    return [
        ratio_goal(section, "idle Node worker vs bare Node, PSS", NODE, limit=1.15),
        Goal(
            "idle Python worker, PSS",
            6.0,
            None if python is None else python.p50,
            "MiB",
            note=section.missing(PYTHON),
        ),
    ]


CLAIM = Claim("memory", "Idle workers", "MiB", BASE, run, judge)
