"""Serving over HTTP from the first probe to the last worker."""

from __future__ import annotations

import socket
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

import trio

from ...approval import Approver
from ...config import Config
from ...dispatch.audit import AuditLog
from ...dispatch.options import resolve_cwd
from ...errors import WorkerError
from ...interactions import Adapter
from ...pool.nursery import open_service_nursery
from ...runtime import Runtime, open_runtime
from ...sandbox import best_tier, derive_findings
from ...sandbox.report import TIERS
from ...serving import (
    AllowedHosts,
    BearerOnly,
    LocalOnly,
    allowed_hosts,
    serve_app,
    stop_on_signals,
)
from .app import DEFAULT_PRINCIPAL, PUBLIC_PATHS, make_app
from .homes import Homes
from .keys import KeyRing
from .limits import ServiceLimits
from .requests import Workplace
from .service import Service

__all__ = ["Hosting", "serve_http"]

_PROBE: Final = "probe"
"""A principal that makes no calls."""


@dataclass(frozen=True, slots=True)
class Hosting:
    """How a service is run.

    Args:
        config: From ``load_config``.
        cwd: Directory that calls may work in, of keys without one of their own.
        extra_roots: Further directories that calls may name as ``cwd``.
        whose: Return the principal of a token; ``None``: no token is asked for.
        ring: The keys, when there is a file of them.
        approvals: Whether clients approve calls that a rule sends to approval.
        history: File that sessions are kept in; in memory by default.
        audit: File that a record of every call is appended to.
        hosts: Further values of ``Host`` that are answered.
        origins: Further origins whose pages may ask.
        node: Node executable; found by itself by default.
        cache_dir: Where the compiled engine is kept.
        simulate: Features to treat as missing, for tests.
    """

    config: Config
    cwd: str
    extra_roots: tuple[str, ...] = ()
    whose: Callable[[str], str | None] | None = None
    ring: KeyRing | None = None
    approvals: bool = False
    history: str | None = None
    audit: str | None = None
    hosts: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()
    limits: ServiceLimits = field(default_factory=ServiceLimits)
    node: str | None = None
    cache_dir: str | None = None
    simulate: tuple[str, ...] = ()


async def serve_http(
    hosting: Hosting,
    listener: socket.socket,
    *,
    stop: trio.Event | None = None,
    on_ready: Callable[[], None] = lambda: None,
    on_stop: Callable[[int], None] = lambda _calls: None,
) -> None:
    """Serve until told to stop; then take nothing new, let calls end, and leave nothing behind.

    Args:
        listener: From ``open_listener``; it is closed at the end.
        stop: Says when; by default SIGINT and SIGTERM do, and a second one ends the process.
        on_ready: Called once when connections are accepted.
        on_stop: Called once when told to stop, with the number of calls under way.

    Raises:
        RawExecError: The configuration, a directory or a file can't be used.
    """
    host, port = listener.getsockname()[:2]
    async with AsyncExitStack() as stack:
        audit = None
        if hosting.audit is not None:
            audit = AuditLog(hosting.audit)
            stack.callback(audit.close)
        outer = await stack.enter_async_context(open_service_nursery())
        if stop is None:
            stop = trio.Event()
            await outer.start(stop_on_signals, stop)
        hosts = allowed_hosts(host, port, hosting.hosts)
        await _host(hosting, listener, audit, stop, hosts, on_ready, on_stop)
        outer.cancel_scope.cancel()


async def _host(
    hosting: Hosting,
    listener: socket.socket,
    audit: AuditLog | None,
    stop: trio.Event,
    hosts: AllowedHosts,
    on_ready: Callable[[], None],
    on_stop: Callable[[int], None],
) -> None:
    workplace = _workplaces(hosting)
    problems: list[str] = []

    def not_ready() -> tuple[str, ...]:
        ring = hosting.ring
        if ring is not None:
            ring.refresh()
        broken = None if ring is None else ring.problem
        return (*problems, *(() if broken is None else (broken,)))

    def open_for(
        principal: str, *, approve: Approver | None, interact: Adapter | None
    ) -> AbstractAsyncContextManager[Runtime]:
        return open_runtime(
            hosting.config,
            cwd=workplace(principal).roots[0],
            approve=approve,
            principal=principal,
            node=hosting.node,
            cache_dir=hosting.cache_dir,
            audit=audit,
            history=hosting.history,
            interact=interact,
            simulate=hosting.simulate,
        )

    async with open_service_nursery() as nursery:
        homes = Homes(open_for, hosting.limits, nursery, approvals=hosting.approvals)
        service = Service(homes, hosting.limits, workplace, nursery, not_ready)
        # What is wrong with the configuration shows before the first request.
        if hosting.ring is None:
            async with homes.of(DEFAULT_PRINCIPAL).runtime() as runtime:
                problems += await _unenforceable(runtime)
        else:
            async with open_for(_PROBE, approve=None, interact=None) as runtime:
                problems += await _unenforceable(runtime)
        app: Any = make_app(service)
        if hosting.whose is not None:
            app = BearerOnly(app, hosting.whose, PUBLIC_PATHS, on_refusal=service.metrics.refuse)
        app = LocalOnly(app, hosts, hosting.origins, on_refusal=service.metrics.refuse)
        nursery.start_soon(homes.tidy_for_ever)
        closing = trio.Event()
        async with open_service_nursery() as serving:
            await serving.start(partial(serve_app, app, listener, stop=closing))
            on_ready()
            await stop.wait()
            on_stop(service.admission.held)
            await service.drain()
            closing.set()
        await homes.close()
        nursery.cancel_scope.cancel()


def _workplaces(hosting: Hosting) -> Callable[[str], Workplace]:
    shared = tuple(dict.fromkeys(map(resolve_cwd, (hosting.cwd, *hosting.extra_roots))))

    def workplace(principal: str) -> Workplace:
        own = None if hosting.ring is None else hosting.ring.directory_of(principal)
        return Workplace(shared if own is None else (own,))

    return workplace


async def _unenforceable(runtime: Runtime) -> list[str]:
    """Return why this host can not enforce what the default profile asks for, if it can't."""
    sandbox = runtime.config.sandbox
    wanted = sandbox.profiles[sandbox.default].tier
    try:
        capabilities = await runtime.launcher.probe()
    except WorkerError as exc:
        return [f"the sandbox can not be probed: {exc.message}"]
    if TIERS.index(best_tier(capabilities)) >= TIERS.index(wanted):
        return []
    missing = [found.message for found in derive_findings(capabilities) if not found.works]
    return [f"tier {wanted!r} can not be enforced here: {'; '.join(missing)}"]
