"""One open runtime for one tier and one isolation, holding every case as a tool."""

from __future__ import annotations

import json
import tempfile
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import trio

import raw_exec
from raw_exec.errors import WorkerBroken
from tests.attacks.fixtures import World, mapping_of
from tests.attacks.handlers import BYSTANDER, PY_BYSTANDER, SIBLING, render
from tests.attacks.model import TIERS, Case

__all__ = ["GRACE_MS", "LOAD_MS", "Lab", "TierMissing", "open_lab"]

GRACE_MS = 100
LOAD_MS = 4000
LIMITS = {
    "call_ms": 3_600_000,  # the sibling's call lasts as long as the lab
    "load_ms": LOAD_MS,
    "grace_ms": GRACE_MS,
    "memory_bytes": 192 << 20,
    "scratch_bytes": 8 << 20,
    "max_workers": 6,
    "growth_bytes": 32 << 20,
}
SETTLE_SECONDS = 5.0
_OTHERS = ("bystander", "bystander-py", "newcomer", "sibling")


class TierMissing(Exception):
    """The host cannot enforce a tier; the text says which step fails."""


@dataclass(slots=True)
class Lab:
    """An open runtime with a sibling worker that is busy all the time.

    Args:
        world: The fixture set.
        runtime: Open.
        nursery: For workers that are started beside the pool.
        work: The one folder that is granted for writing.
        on_view: Each call runs on a copy-on-write view of that folder.
    """

    world: World
    tier: str
    isolation: str
    runtime: raw_exec.Runtime
    nursery: trio.Nursery
    work: Path
    on_view: bool = False
    facts: dict[str, Any] = field(default_factory=dict)
    known: frozenset[int] = frozenset()
    sibling: psutil.Process | None = None
    spoiled: bool = False

    async def call(
        self, tool: str, *, seconds: float, dry_run: bool = False, **arguments: Any
    ) -> raw_exec.ToolResult:
        """Dispatch one call."""
        return await self.runtime.registry.dispatch(
            tool, arguments, cwd=self.work, timeout_seconds=seconds, dry_run=dry_run
        )

    def bystander(self, language: str) -> str:
        """The other plugin whose workers are started as those of a case are."""
        return "bystander-py" if language == "py" else "bystander"

    @property
    def broken(self) -> bool:
        """Whether a case killed what the lab rests on, so that another has to be opened."""
        if self.spoiled or self.runtime.statistics().pool.launcher_restarts:
            return True
        return self.sibling is None or not self.sibling.is_running()

    def launcher(self) -> psutil.Process | None:
        """The launcher's process, ``None`` when it is dead."""
        pid = self.runtime.statistics().launcher_pid
        try:
            return None if pid is None else psutil.Process(pid)
        except psutil.NoSuchProcess:
            return None

    def descendants(self) -> list[psutil.Process]:
        """Everything below the launcher that was not there when the lab was opened."""
        launcher = self.launcher()
        try:
            children = [] if launcher is None else launcher.children(recursive=True)
        except psutil.NoSuchProcess:
            return []
        return [p for p in children if p.pid not in self.known]

    async def settle(self) -> str | None:
        """Wait until nothing but the sibling is at work; say what is, if that takes too long."""
        stats, quiet = self.runtime.statistics(), False
        with trio.move_on_after(SETTLE_SECONDS):
            while True:
                stats = self.runtime.statistics()
                pool = stats.pool
                busy = pool.live - pool.idle
                if stats.calls_in_flight == busy == 1 and stats.live_trees <= pool.live:
                    # A spare that is about to be started shows in the next turn.
                    if quiet:
                        return None
                    quiet = True
                else:
                    quiet = False
                await trio.sleep(0.002)
        return f"not quiet again after {SETTLE_SECONDS:g} s: {stats}"

    async def process_counts(self) -> list[int]:
        """How many processes each live tree has, the sibling's included."""
        connection = self.runtime.launcher._connection
        if connection is None:
            return []
        counts = []
        try:
            for child in list(connection.children.values()):
                usage = await self.runtime.launcher.usage(child)
                counts.append(int(usage["processes"]))
        except WorkerBroken:
            pass  # the launcher died, which ``broken`` shows
        return counts

    def scratch_folders(self) -> list[Path]:
        """Every private directory on disk."""
        return sorted(self.runtime.launcher._scratch_parent.glob("scratch-*/*"))


def _write(folder: Path, identity: str, language: str, source: str, files: Any) -> None:
    folder.mkdir(parents=True)
    entry = "index.mjs" if language == "js" else "index.py"
    manifest = {
        "api_version": 2,
        "id": identity,
        "version": "1.0.0",
        "name": identity,
        "description": f"{identity}, an attack. Example call: {{}}",
        "input_schema": {"type": "object", "additionalProperties": True},
        "entry": f"./{entry}",
    }
    (folder / "tool.json").write_text(json.dumps(manifest))
    (folder / entry).write_text(source)
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def write_package(world: World, cases: Iterable[Case]) -> list[Case]:
    """Write every case's tool folder once; return the cases that have one."""
    handlers = [case for case in cases if case.language in ("js", "py")]
    tools = world.base / "config" / "tools"
    if not any(tools.iterdir()):
        for case in handlers:
            _write(tools / case.tool, case.tool, case.language, render(case), case.files)
        for name in ("bystander", "newcomer"):
            _write(tools / name, name, "js", BYSTANDER, {})
        _write(tools / "bystander-py", "bystander-py", "py", PY_BYSTANDER, {})
        _write(tools / "sibling", "sibling", "py", SIBLING, {})
    return handlers


def _config(
    world: World, tier: str, isolation: str, cases: list[Case], effects: str
) -> raw_exec.Config:
    common = {"read": ["$CWD"], "isolation": isolation, "tier": tier, "effects": effects}
    plain = {**common, "write": ["$CWD"]}
    profiles = {
        "plain": plain,
        "procs": {"extends": "plain", "processes": "allowed"},
        "readonly": common,
        "proc": {"extends": "plain", "read": ["$CWD", "/proc"]},
        "net": {"extends": "plain", "network": "loopback"},
        "netprocs": {"extends": "plain", "network": "loopback", "processes": "allowed"},
    }
    mapping = {f"agent/{c.tool}": c.profile for c in cases if c.profile != "plain"}
    document = {
        "default_agent": "a",
        "agents": {
            "a": {
                "tools": {
                    "use": [f"agent/{c.tool}" for c in cases]
                    + [f"agent/{name}" for name in _OTHERS]
                }
            }
        },
        "sandbox": {"default": "plain", "profiles": profiles, "tools": mapping},
        "limits": LIMITS,
    }
    path = world.base / "config" / f"{tier}-{isolation}.json"
    path.write_text(json.dumps(document))
    path.chmod(0o600)
    return raw_exec.load_config(path)


@asynccontextmanager
async def open_lab(
    world: World,
    tier: str,
    isolation: str,
    cases: Iterable[Case],
    *,
    effects: str = "declared",
) -> AsyncIterator[Lab]:
    """Open a runtime that can do exactly one tier, and let the sibling begin its call.

    Args:
        effects: Of every profile; anything but ``declared`` runs each call on a view.
    """
    handlers = write_package(world, cases)
    config = _config(world, tier, isolation, handlers, effects)
    work = world.base / f"work-{tier}-{isolation}-{effects}"
    work.mkdir(exist_ok=True)
    private = world.base / "private"
    private.mkdir(exist_ok=True)
    kept, tempfile.tempdir = tempfile.tempdir, str(private)
    try:
        async with (
            trio.open_nursery() as nursery,
            raw_exec.open_runtime(
                config, cwd=work, simulate=TIERS[tier], cache_dir=world.base / "cache"
            ) as runtime,
        ):
            on_view = effects != "declared"
            lab = Lab(world, tier, isolation, runtime, nursery, work, on_view)
            try:
                await _check_tier(lab)
                await _begin(lab, nursery)
                yield lab
            finally:
                nursery.cancel_scope.cancel()
    finally:
        tempfile.tempdir = kept


async def _check_tier(lab: Lab) -> None:
    found = await lab.runtime.launcher.capabilities()
    needed = {"baseline": (), "namespaces": ("namespaces",), "cgroup": ("namespaces", "cgroup")}
    for name in ("landlock", "seccomp", *needed[lab.tier]):
        if not found[name]["works"]:
            raise TierMissing(f"{lab.tier} needs {name}: {found[name]['message']}")


async def _begin(lab: Lab, nursery: trio.Nursery) -> None:
    """Start the sibling, and have one call of every kind of machinery done before measuring."""
    world = lab.world

    async def sibling() -> None:
        await lab.call("sibling", seconds=3600, token=world.tokens["T3"])

    nursery.start_soon(sibling)
    with trio.fail_after(60):
        while not lab.runtime.statistics().live_trees:
            await trio.sleep(0.01)
        # A sibling that only waits shows up as asleep.
        if (problem := await lab.settle()) is not None:
            raise AssertionError(f"the sibling did not start: {problem}")
        launcher = lab.launcher()
        assert launcher is not None
        children = launcher.children(recursive=True)
        lab.known = frozenset(p.pid for p in children)
        lab.sibling = children[-1]
        for name in ("bystander", "bystander-py"):
            result = await lab.call(name, seconds=30, good=True)
            assert result.text == "good", result
            assert result.enforced["tier"] == lab.tier, result.enforced
        problem = await lab.settle()
        assert problem is None, problem
    pids = (*lab.known, launcher.pid)
    told = world.facts()
    # What we may not read ourselves has an address too; whoever tries it is stopped before.
    found = {str(pid): mapping_of(pid) for pid in pids}
    told["maps"] |= {pid: place for pid, place in found.items() if place is not None}
    lab.facts = {
        **told,
        "siblings": sorted(lab.known),
        "launcher": launcher.pid,
        "work": str(lab.work),
        "private": str(lab.runtime.launcher._scratch_parent),
    }
