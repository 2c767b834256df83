"""The set of workers: who may use which, how many there are, when they are retired.

Rules
1. A worker serves one trust domain for life: tool identity, content digest, sandbox
   plan, principal. ``WorkerSpec.key`` is that domain; no worker moves between keys.
2. At most ``max_workers`` exist, starting ones included. A call that finds no room
   first retires the longest idle worker of another key, then waits its turn in order.
3. A worker goes back only through ``_give_back``, which decides by evidence whether it
   may serve again. Everything else ends it.
4. A domain whose workers keep dying before they are loaded is not started again for a
   while; the refusal says for how long and why.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

import trio

from ..errors import ManifestError, SandboxError, WorkerBroken, WorkerError
from ..limits import Limits
from ..sandbox import RuntimeFiles, host_plan, node_files, python_files
from .breaker import CircuitBreaker
from .calls import LoadFailure
from .hygiene import record_modes, restore_modes, retire_reason
from .launcher import Launcher
from .nursery import open_service_nursery
from .runtimes import (
    NodeFacts,
    NodeRuntime,
    examine_node,
    find_node,
    node_argv,
    node_environment,
    python_environment,
)
from .spec import WorkerSpec
from .statistics import PoolStatistics
from .worker import Worker

__all__ = ["Lease", "PoolStatistics", "WorkerPool", "open_pool"]

BeforeLoad = Callable[[], Awaitable[None]] | None
_SWEEP_SECONDS = 1.0
_TIDY_SECONDS = 2.0
_MAX_HOST_PLANS = 4096


@dataclass(slots=True)
class Lease:
    """Exclusive use of one worker for one call.

    Args:
        worker: The worker, started, confined and loaded.
        warm: Whether it had served before.
        start_ms: What starting and loading it cost this call.
    """

    worker: Worker
    warm: bool
    start_ms: float


@dataclass(slots=True)
class _Domain:
    """Workers of one trust domain that no call is using."""

    idle: deque[Worker] = field(default_factory=deque)
    spares: deque[Worker] = field(default_factory=deque)
    spares_wanted: int = 0


class WorkerPool:
    """Pooled, sandboxed workers. Use ``open_pool``."""

    def __init__(
        self,
        nursery: trio.Nursery,
        launcher: Launcher,
        limits: Limits,
        *,
        snapshot_store: Path,
        node: NodeRuntime | str | None = None,
        use: tuple[str, ...] = ("namespaces", "cgroup"),
        spares: int = 1,
        cache_dir: Path | None = None,
    ) -> None:
        self._nursery = nursery
        self._launcher = launcher
        self._limits = limits
        self._store = snapshot_store
        self._modes = record_modes(snapshot_store)
        self._node = node if isinstance(node, NodeRuntime) else None
        self._node_path = node if isinstance(node, str) else None
        self._facts: NodeFacts | None = None
        self._cache_dir = cache_dir
        self._use = use
        self._spares = spares
        self._domains: dict[tuple[str, ...], _Domain] = {}
        self._breaker = CircuitBreaker()
        self._host_plans: dict[tuple[str, ...], tuple[Path, dict[str, Any]]] = {}
        self._room = trio.lowlevel.ParkingLot()
        self._live = 0
        self._started = 0
        self._calls = 0
        self._retired: dict[str, int] = {}
        self._closing = False

    # -- public ------------------------------------------------------------

    def lease(self, spec: WorkerSpec, before_load: BeforeLoad = None) -> _Leasing:
        """Return an async context manager that gives exclusive use of a loaded worker.

        If the body raises or is cancelled, the worker is ended. ``before_load`` is awaited
        when the worker is there, and nothing of the plugin has run in it.

        Raises:
            SandboxError: The plan can't be enforced here.
            LoadFailure: The plugin can't be imported.
            WorkerBroken: The worker died while it was started.
        """
        return _Leasing(self, spec, before_load)

    def _take_idle_nowait(self, spec: WorkerSpec) -> Worker | None:
        """Take a warm worker without waiting; the usual way, so it has no checkpoint."""
        domain = self._domains.get(spec.key)
        if domain is None or not domain.idle or self._closing:
            return None
        worker = domain.idle[-1]
        if not worker.usable:
            return None  # `_take` ends it
        domain.idle.pop()
        return worker

    async def _open_lease(self, spec: WorkerSpec, before_load: BeforeLoad) -> Lease:
        warm_worker = self._take_idle_nowait(spec)
        if warm_worker is not None:
            return Lease(warm_worker, True, 0.0)
        before = trio.current_time()
        worker, warm = await self._take(spec)
        if not warm:
            try:
                if before_load is not None:
                    await before_load()
                await self._load(worker, spec)
            except BaseException as exc:
                await self._close_lease(worker, spec, exc)
                raise
        return Lease(worker, warm, (trio.current_time() - before) * 1000)

    async def _close_lease(
        self, worker: Worker, spec: WorkerSpec, failure: BaseException | None
    ) -> None:
        if failure is not None and worker.retire_reason is None:
            worker.retire_reason = type(failure).__name__
        await self._give_back(worker, spec)

    async def warm(self, spec: WorkerSpec) -> None:
        """Start one spare for a domain, if there is room: confined, no plugin code run.

        Raises:
            SandboxError: The plan can't be enforced here.
            WorkerBroken: The worker died while it was started.
        """
        if self._live >= self._limits.max_workers or self._closing:
            return
        self._live += 1
        worker = await self._start(spec)
        try:
            await worker.ping(self._limits.load_ms)
        except BaseException:
            await self._end(worker, "spare failed")
            raise
        if self._closing:
            await self._end(worker, "closing")
            return
        worker.idle_since = trio.current_time()
        self._domain(spec).spares.append(worker)
        self._room.unpark()

    def statistics(self) -> PoolStatistics:
        """Return counts as of now."""
        return PoolStatistics(
            live=self._live,
            idle=sum(len(d.idle) + len(d.spares) for d in self._domains.values()),
            spares=sum(len(d.spares) for d in self._domains.values()),
            waiting=len(self._room),
            started=self._started,
            calls=self._calls,
            retired=dict(self._retired),
            launcher_restarts=self._launcher.restarts,
        )

    def node(self) -> NodeRuntime:
        """Return the Node executable in use.

        Raises:
            WorkerError: There is none.
        """
        if self._node is None:
            self._node = find_node(self._node_path)
        return self._node

    async def aclose(self) -> None:
        """End every worker that no call is using, and let none start again."""
        self._closing = True
        self._room.unpark_all()
        with trio.CancelScope(shield=True):
            async with trio.open_nursery() as nursery:
                for domain in self._domains.values():
                    for worker in (*domain.idle, *domain.spares):
                        nursery.start_soon(self._end, worker, "closing")
                    domain.idle.clear()
                    domain.spares.clear()

    # -- taking ------------------------------------------------------------

    async def _take(self, spec: WorkerSpec) -> tuple[Worker, bool]:
        fresh = spec.plan.isolation == "fresh"
        waited = False
        while True:
            if self._closing:
                raise WorkerBroken("worker_crashed", "the runtime is closing")
            domain = self._domain(spec)  # a wait may outlive an unused domain
            if not fresh and domain.idle:
                worker = domain.idle.pop()
                if worker.usable:
                    return worker, True
                await self._end(worker, "unusable while idle")
                continue
            if domain.spares:
                worker = domain.spares.popleft()
                if worker.usable:
                    return worker, False
                await self._end(worker, "unusable while idle")
                continue
            try:
                self._breaker.check(spec)
            except WorkerBroken:
                self._room.unpark()  # whoever is next may have the room that woke this one
                raise
            # Newcomers queue behind those who already wait.
            if waited or not len(self._room):
                if self._live < self._limits.max_workers:
                    self._live += 1
                    return await self._start(spec), False
                victim = self._longest_idle()
                if victim is not None:
                    await self._end(victim, "made room")
                    continue
            await self._room.park()
            waited = True

    def _longest_idle(self) -> Worker | None:
        best: tuple[float, deque[Worker]] | None = None
        for domain in self._domains.values():
            for queue in (domain.idle, domain.spares):
                if queue:
                    when = queue[0].idle_since
                    if best is None or when < best[0]:
                        best = (when, queue)
        return None if best is None else best[1].popleft()

    async def _start(self, spec: WorkerSpec) -> Worker:
        """Start a worker for which room was counted."""
        try:
            directory, plan = await self._prepare(spec)
            worker = await self._spawn(spec, directory, plan)
        except BaseException as exc:
            self._release_room()
            if isinstance(exc, WorkerBroken):
                self._breaker.note_failure(spec, str(exc))
            if isinstance(exc, OSError):
                raise _refused(spec, "can't be started", "pipes", exc) from exc
            raise
        self._started += 1
        return worker

    async def _spawn(self, spec: WorkerSpec, directory: Path, plan: dict[str, Any]) -> Worker:
        if spec.language == "esm":
            node = self.node().path
            kind, argv = "exec", node_argv(node, memory_bytes=spec.plan.memory_bytes)
            env = node_environment(node, processes=spec.plan.processes)
        else:
            kind, argv, env = "python", [], python_environment()
        limits = self._limits
        return await Worker.start(
            self._launcher,
            self._nursery,
            label=spec.label,
            kind=kind,
            argv=argv,
            env=env,
            cwd=spec.cwd or str(directory),
            plan=plan,
            load_ms=limits.load_ms,
            result_bytes=limits.result_bytes,
            log_bytes=limits.log_bytes,
            memory_bytes=spec.plan.memory_bytes,
        )

    async def _prepare(self, spec: WorkerSpec) -> tuple[Path, dict[str, Any]]:
        """Lay out the plugin's files and see that they can be reached."""
        try:
            restore_modes(self._modes)
            directory, plan = await self._host_plan(spec)
            restore_modes({directory: 0o555})
        except (OSError, ManifestError) as exc:
            raise _refused(spec, "can't have its files laid out", "snapshot", exc) from exc
        return directory, plan

    async def _host_plan(self, spec: WorkerSpec) -> tuple[Path, dict[str, Any]]:
        cached = self._host_plans.get(spec.key)
        if cached is not None:
            return cached
        directory = await trio.to_thread.run_sync(spec.snapshot.materialise, self._store)
        files = await self._node_files() if spec.language == "esm" else python_files()
        plan = host_plan(
            spec.plan, runtime=files, snapshot_dir=directory, use=self._use, settles=True
        )
        if len(self._host_plans) >= _MAX_HOST_PLANS:
            self._host_plans.clear()
        self._host_plans[spec.key] = (directory, plan)
        return directory, plan

    async def _node_files(self) -> RuntimeFiles:
        node = self.node().path
        if self._facts is None:
            self._facts = await trio.to_thread.run_sync(examine_node, node, self._cache_dir)
        return node_files(node, base_data_bytes=self._facts.base_data_bytes)

    async def _load(self, worker: Worker, spec: WorkerSpec) -> None:
        directory, _ = await self._prepare(spec)
        try:
            await worker.load(
                entry=str(directory / spec.entry),
                name=spec.label,
                kind=spec.kind,
                load_ms=self._limits.load_ms,
            )
        except LoadFailure:
            raise
        except WorkerBroken as exc:
            self._breaker.note_failure(spec, str(exc))
            raise
        self._breaker.note_success(spec)

    # -- giving back -------------------------------------------------------

    async def _give_back(self, worker: Worker, spec: WorkerSpec) -> None:
        self._calls += 1
        reason = worker.retire_reason or ("closing" if self._closing else None)
        if reason is None:
            reason = retire_reason(worker, spec, self._limits)
        if reason is None:
            reason = await self._tidy(worker, spec)
        if reason is None:
            worker.idle_since = trio.current_time()
            self._domain(spec).idle.append(worker)
            if self._room:
                self._room.unpark()
            return
        await self._end(worker, reason)
        wanted = spec.plan.isolation == "fresh" and self._spares and not self._closing
        if wanted and not worker.child.is_copied:  # a copy of a tree does not keep
            self._replace_spare(spec)

    async def _tidy(self, worker: Worker, spec: WorkerSpec) -> str | None:
        """Remove what a call left outside its process; say why that is not enough."""
        child = worker.child
        if not child.has_files and not spec.plan.processes:
            return None
        with trio.move_on_after(_TIDY_SECONDS) as scope:
            scope.shield = True
            try:
                if spec.plan.processes:
                    # Processes may have left the worker's sight, not the launcher's.
                    usage = await self._launcher.usage(child)
                    if usage["processes"] > 1:
                        return "left processes"
                if child.has_files:
                    if not await self._launcher.clean(child):
                        return "left files"
                    child.note_clean()
            except WorkerError:
                return "lost"
        # The caller has its result: a tree that takes longer goes with the worker.
        return "left files" if scope.cancelled_caught else None

    async def _end(self, worker: Worker, reason: str) -> None:
        """End a worker and let a waiting call have its room. Not cancellable."""
        self._retired[reason] = self._retired.get(reason, 0) + 1
        try:
            await worker.end()
        finally:
            self._release_room()

    def _release_room(self) -> None:
        self._live -= 1
        self._room.unpark()

    def _replace_spare(self, spec: WorkerSpec) -> None:
        domain = self._domain(spec)
        if len(domain.spares) + domain.spares_wanted < self._spares:
            domain.spares_wanted += 1
            self._nursery.start_soon(self._start_spare, spec, domain)

    async def _start_spare(self, spec: WorkerSpec, domain: _Domain) -> None:
        try:
            await self.warm(spec)
        except (WorkerError, SandboxError, OSError):
            return  # the next call meets the same error and reports it
        finally:
            domain.spares_wanted -= 1

    async def sweep_forever(self) -> None:
        """Retire workers that nobody has used for ``idle_ms``."""
        while True:
            await trio.sleep(_SWEEP_SECONDS)
            horizon = trio.current_time() - self._limits.idle_ms / 1000
            for key, domain in list(self._domains.items()):
                if not (domain.idle or domain.spares or domain.spares_wanted):
                    del self._domains[key]
                for queue in (domain.idle, domain.spares):
                    while queue and queue[0].idle_since < horizon:
                        await self._end(queue.popleft(), "idle")

    def _domain(self, spec: WorkerSpec) -> _Domain:
        domain = self._domains.get(spec.key)
        if domain is None:
            domain = self._domains[spec.key] = _Domain()
        return domain


def _refused(spec: WorkerSpec, what: str, step: str, cause: Exception) -> SandboxError:
    number = cause.errno if isinstance(cause, OSError) else None
    return SandboxError(
        "sandbox_unavailable", f"{spec.label} {what}: {cause}", step=step, errno=number
    )


class _Leasing:
    """A lease as an async context manager; a class, since generators cost 10 µs a call."""

    __slots__ = ("_before", "_lease", "_pool", "_spec")

    def __init__(self, pool: WorkerPool, spec: WorkerSpec, before: BeforeLoad) -> None:
        self._pool, self._spec, self._before = pool, spec, before
        self._lease: Lease | None = None

    async def __aenter__(self) -> Lease:
        self._lease = await self._pool._open_lease(self._spec, self._before)
        return self._lease

    async def __aexit__(
        self,
        _kind: type[BaseException] | None,
        failure: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        lease, self._lease = self._lease, None
        assert lease is not None  # noqa: S101  (entered before left)
        await self._pool._close_lease(lease.worker, self._spec, failure)


@asynccontextmanager
async def open_pool(
    launcher: Launcher,
    limits: Limits,
    *,
    snapshot_store: Path,
    node: NodeRuntime | str | None = None,
    use: tuple[str, ...] = ("namespaces", "cgroup"),
    spares: int = 1,
    cache_dir: Path | None = None,
) -> AsyncIterator[WorkerPool]:
    """Open a pool; on exit every worker is dead and reaped."""
    async with open_service_nursery() as nursery:
        pool = WorkerPool(
            nursery,
            launcher,
            limits,
            snapshot_store=snapshot_store,
            node=node,
            use=use,
            spares=spares,
            cache_dir=cache_dir,
        )
        nursery.start_soon(pool.sweep_forever)
        try:
            yield pool
        finally:
            await pool.aclose()
            nursery.cancel_scope.cancel()
