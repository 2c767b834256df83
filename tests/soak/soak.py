"""Many calls of every kind, with random faults, on one runtime; then count what is left.

    python tests/soak/soak.py --calls 200000 [--seconds S] [--seed N]

Every call must have exactly one outcome with a code that its kind may have. What the process
holds is counted after a warm-up and at the end, each time when everything has settled (no call,
no worker): descriptors, threads, children, zombies, private files and control groups must be
equal, resident memory within 20 MB. Exit status 0 when all that holds, else 1.
"""

from __future__ import annotations

import argparse
import gc
import os
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import trio

import raw_exec

if __package__:
    from .tools import FAULT_CODES, KINDS, Kind, write_tools
else:  # run as a file, whose folder is on the path then
    from tools import FAULT_CODES, KINDS, Kind, write_tools

__all__ = ["Report", "Sample", "soak"]

RSS_TOLERANCE_BYTES = 20 * 1024 * 1024
_SETTLE_SECONDS = 60.0
_CALL_SECONDS = 60.0
"""No call may take longer, whatever happens to it."""

_CALLERS = 8
_WORKER_KILL_CALLS = 500
_LAUNCHER_KILL_CALLS = 20_000
_PROGRESS_SECONDS = 10.0


@dataclass(frozen=True)
class Sample:
    """What the process holds."""

    fds: int
    threads: int
    children: int
    zombies: int
    launcher_fds: int
    private_entries: int
    cgroups: int
    rss_bytes: int


@dataclass
class Report:
    """What came of a soak.

    Args:
        outcomes: Calls by tool and code; ``cancelled`` for those given up.
        unexpected: Outcomes that their kind may not have, each once, with its count.
        rss: Resident bytes over time, by number of calls.
        measured: Calls between the two counts, made in ``seconds``.
    """

    started: int = 0
    ended: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    unexpected: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    rss: list[tuple[int, int]] = field(default_factory=list)
    before: Sample | None = None
    after: Sample | None = None
    measured: int = 0
    seconds: float = 0.0
    retired: dict[str, int] = field(default_factory=dict)
    workers: int = 0

    def problems(self) -> list[str]:
        """Say what is not as it must be."""
        out = [f"{count} x {what}" for what, count in sorted(self.unexpected.items())]
        if self.started != self.ended:
            out.append(f"{self.started} calls were started and {self.ended} have an outcome")
        for row in self.rows():
            if not row[4]:
                out.append(f"{row[0]}: {row[1]} at the start, {row[2]} at the end")
        return out

    def rows(self) -> list[tuple[str, int, int, str, bool]]:
        """Return name, start, end, tolerance and whether it holds, for every count."""
        before, after = self.before, self.after
        assert before is not None
        assert after is not None
        out = []
        for name in Sample.__dataclass_fields__:
            start, end = getattr(before, name), getattr(after, name)
            if name == "rss_bytes":
                good = end - start <= RSS_TOLERANCE_BYTES
                out.append((name, start, end, f"+{RSS_TOLERANCE_BYTES}", good))
            else:
                out.append((name, start, end, "equal", start == end))
        return out


class _Soak:
    def __init__(self, runtime: Any, private: Path, report: Report, seed: int) -> None:
        self._runtime = runtime
        self._private = private
        self._report = report
        self._chance = random.Random(seed)
        self._launchers: set[int] = set()

    # -- calls

    async def call(self, kind: Kind) -> None:
        """Make one call and judge its outcome."""
        report = self._report
        report.started += 1
        limit = _CALL_SECONDS
        if kind.abort_ms is not None:
            limit = self._chance.uniform(0, kind.abort_ms / 1000)
        with trio.move_on_after(limit) as scope:
            result = await self._runtime.registry.dispatch(kind.tool, kind.arguments)
        report.ended += 1
        what = f"{kind.tool} {kind.arguments.get('action')}"
        if scope.cancelled_caught:
            report.outcomes[f"{kind.tool} cancelled"] += 1
            if kind.abort_ms is None:
                report.unexpected[f"{what} did not end in {_CALL_SECONDS} s"] += 1
            return
        report.outcomes[f"{kind.tool} {result.code or 'ok'}"] += 1
        if result.code not in kind.codes and result.code not in FAULT_CODES:
            report.unexpected[f"{what} ended in {result.code}: {result.text:.200}"] += 1

    async def callers(self, calls: int, until: float, weights: list[float]) -> None:
        """Make calls from 1 to 8 tasks at a time; the number changes as it goes."""
        left = calls

        async def caller(count: int) -> None:
            for _ in range(count):
                if time.monotonic() > until:
                    return
                (kind,) = self._chance.choices(KINDS, weights)
                await self.call(kind)
                self._maybe_fault()

        while left > 0 and time.monotonic() < until:
            tasks = self._chance.randint(1, _CALLERS)
            each = max(1, min(left, 400) // tasks)
            async with trio.open_nursery() as nursery:
                for _ in range(tasks):
                    nursery.start_soon(caller, each)
            left -= each * tasks

    async def every_kind(self) -> None:
        """Make one call of every kind, with each fault once."""
        for kind in KINDS:
            await self.call(kind)
        self.kill_worker()
        await self.call(KINDS[0])
        self.kill_launcher()
        for kind in KINDS[:2]:
            await self.call(kind)

    # -- faults

    def _maybe_fault(self) -> None:
        if self._chance.random() < 1 / _WORKER_KILL_CALLS:
            self.kill_worker()
        if self._chance.random() < 1 / _LAUNCHER_KILL_CALLS:
            self.kill_launcher()

    def _launcher(self) -> psutil.Process | None:
        pid = self._runtime.statistics().launcher_pid
        if pid is None:
            return None
        self._launchers.add(pid)
        try:
            return psutil.Process(pid)
        except psutil.NoSuchProcess:
            return None

    def kill_worker(self) -> None:
        """Kill a process of the launcher: a worker, part of one, or what workers fork from."""
        launcher = self._launcher()
        try:
            family = [] if launcher is None else launcher.children(recursive=True)
            if family:
                self._chance.choice(family).kill()
                self._report.faults["process killed"] += 1
        except psutil.NoSuchProcess:
            pass

    def kill_launcher(self) -> None:
        """Kill the launcher; what it had started must end, and it must be replaced."""
        launcher = self._launcher()
        try:
            if launcher is not None:
                launcher.kill()
                self._report.faults["launcher killed"] += 1
        except psutil.NoSuchProcess:
            pass

    # -- counting

    async def settle(self, wanted: Sample | None = None) -> Sample:
        """Wait until nothing is under way, and count; with ``wanted``, until it is reached.

        Idle workers are retired, threads of the event loop's pool end; both take a while.
        """
        await self.call(KINDS[0])  # a killed launcher is replaced by a call
        with trio.move_on_after(_SETTLE_SECONDS):
            while True:
                now = self._runtime.statistics()
                if not (now.pool.live or now.live_trees or now.calls_in_flight):
                    sample = self.sample()
                    if wanted is None:
                        await trio.sleep(11)  # trio keeps an idle thread for ten seconds
                        return self.sample()
                    if _counts(sample) == _counts(wanted):
                        return sample
                await trio.sleep(0.25)
        return self.sample()

    def sample(self) -> Sample:
        """Count now."""
        gc.collect()
        me = psutil.Process()
        launcher = self._launcher()
        family = me.children(recursive=True)
        return Sample(
            fds=me.num_fds(),
            threads=me.num_threads(),
            children=len(family),
            zombies=sum(_is_zombie(process) for process in family),
            launcher_fds=0 if launcher is None else launcher.num_fds(),
            private_entries=sum(1 for _ in self._private.rglob("*")),
            cgroups=_count_cgroups(self._launchers),
            rss_bytes=me.memory_info().rss,
        )


def _counts(sample: Sample) -> tuple[int, ...]:
    return tuple(
        getattr(sample, name) for name in Sample.__dataclass_fields__ if name != "rss_bytes"
    )


def _is_zombie(process: psutil.Process) -> bool:
    try:
        return bool(process.status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def _count_cgroups(launchers: set[int]) -> int:
    """Count control groups that launchers of ours have made and not removed."""
    prefixes = tuple(f"raw_exec.{pid}." for pid in launchers)
    found = 0
    for folder, names, _files in os.walk("/sys/fs/cgroup"):
        if any(part.startswith(prefixes) for part in folder.split("/")):
            found += 1
        names[:] = [name for name in names if not os.path.islink(os.path.join(folder, name))]
    return found


@contextmanager
def _own_temp(root: Path) -> Iterator[Path]:
    """Give the runtime a temporary folder of its own, so that what it leaves can be counted."""
    private = root / "private"
    private.mkdir()
    before, environ = tempfile.tempdir, os.environ.get("TMPDIR")
    tempfile.tempdir = os.environ["TMPDIR"] = str(private)
    try:
        yield private
    finally:
        tempfile.tempdir = before
        if environ is None:
            del os.environ["TMPDIR"]
        else:
            os.environ["TMPDIR"] = environ


def _approve(request: Any) -> str:
    return "allow" if request.arguments.get("n") else "deny"


async def soak(
    root: Path,
    *,
    calls: int,
    seconds: float = float("inf"),
    seed: int = 0,
    costly: float = 1.0,
    verbose: bool = False,
) -> Report:
    """Run a soak.

    Args:
        root: An empty folder for tools and files.
        calls: After the warm-up.
        seconds: Stop earlier, after so long.
        costly: Factor for calls that end a worker.
    """
    report = Report()
    work = root / "work"
    work.mkdir()
    config = raw_exec.load_config(write_tools(root))
    weights = [kind.weight * (costly if kind.costly else 1) for kind in KINDS]
    with _own_temp(root) as private:
        async with raw_exec.open_runtime(config, cwd=work, approve=_approve) as runtime:
            one = _Soak(runtime, private, report, seed)
            await one.every_kind()
            await one.callers(min(2000, calls // 5), time.monotonic() + 60, weights)
            report.before = await one.settle()
            first, start = report.ended, time.monotonic()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_watch, report, first, verbose)
                await one.callers(calls, start + seconds, weights)
                nursery.cancel_scope.cancel()
            report.seconds = time.monotonic() - start
            report.measured = report.ended - first
            report.after = await one.settle(report.before)
            report.rss.append((report.ended, report.after.rss_bytes))
            pool = runtime.statistics().pool
            report.retired, report.workers = pool.retired, pool.started
            report.faults["launcher restarted"] = pool.launcher_restarts
        left = sorted(path.name for path in private.iterdir())
        if left:
            report.unexpected[f"left after the runtime was closed: {left}"] += 1
    return report


async def _watch(report: Report, first: int, verbose: bool) -> None:
    start = time.monotonic()
    while True:
        await trio.sleep(_PROGRESS_SECONDS)
        rss = psutil.Process().memory_info().rss
        report.rss.append((report.ended, rss))
        if verbose:
            rate = (report.ended - first) / (time.monotonic() - start)
            line = f"{report.ended} calls, {rate:.0f}/s, {rss >> 20} MB, {len(report.unexpected)}"
            print(line + " kinds of unexpected outcomes", file=sys.stderr, flush=True)


def print_report(report: Report) -> None:
    """Print the table, the counts and what is wrong."""
    rate = report.measured / max(report.seconds, 0.001)
    print(f"{report.measured} calls in {report.seconds:.0f} s, {rate:.0f} calls/s")
    print(f"{report.ended} with warm-up and settling, {report.workers} workers started\n")
    print(f"{'':18}{'start':>14}{'end':>14}  tolerance")
    for name, start, end, tolerance, good in report.rows():
        print(f"{name:18}{start:>14}{end:>14}  {tolerance}{'' if good else '  <-- WRONG'}")
    print("\noutcomes")
    for name, count in sorted(report.outcomes.items()):
        print(f"  {name:32}{count:>8}")
    for title, counts in (("faults", report.faults), ("workers retired", report.retired)):
        print(title)
        for name, count in sorted(counts.items()):
            print(f"  {name:32}{count:>8}")
    steps = report.rss[:: max(1, len(report.rss) // 10)]
    print("resident MB by calls: " + ", ".join(f"{n}: {rss >> 20}" for n, rss in steps))
    problems = report.problems()
    print("\n" + ("\n".join(problems) if problems else "nothing is left and nothing was lost"))


def main() -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--calls", type=int, default=200_000)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop after so long")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--costly", type=float, default=0.1, help="factor for ending workers")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="raw-soak-") as folder:
        root = Path(folder).resolve()
        report = trio.run(
            lambda: soak(
                root,
                calls=options.calls,
                seconds=options.seconds,
                seed=options.seed,
                costly=options.costly,
                verbose=True,
            )
        )
    print_report(report)
    return 1 if report.problems() else 0


if __name__ == "__main__":
    sys.exit(main())
