"""What each principal has for itself: a runtime, sessions, calls.

Security: everything that could carry something from one caller to another belongs to one
principal: workers, engine instances, panels, questions, background processes, results. The
name of a principal is taken from the key alone and never from a request.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Final, Protocol

import trio

from ...approval import Approver
from ...dispatch import ToolResult
from ...interactions import Adapter
from ...panels import PanelView
from ...panels.board import declares_implicitly
from ...pool.nursery import is_cancellation
from ...runtime import Runtime
from ...sessions import Session
from .answers import Refused
from .calls import CallBook, HostedCall, new_call_id
from .keeping import Kept
from .limits import ServiceLimits
from .people import ClientAdapter, client_approver
from .requests import CallRequest

__all__ = ["Home", "Homes", "OpenRuntime"]

_TIDY_SECONDS: Final = 15.0
_log = logging.getLogger(__name__)


class OpenRuntime(Protocol):
    """Opens the runtime of one principal."""

    def __call__(
        self, principal: str, *, approve: Approver | None, interact: Adapter | None
    ) -> AbstractAsyncContextManager[Runtime]:
        """Return the context manager of ``open_runtime``."""
        ...


class Home:
    """What one principal has. From ``Homes.of``."""

    def __init__(
        self,
        principal: str,
        open_runtime: OpenRuntime,
        limits: ServiceLimits,
        nursery: trio.Nursery,
        *,
        approvals: bool,
    ) -> None:
        self.principal = principal
        self.calls = CallBook(limits)
        self._limits = limits
        self._nursery = nursery
        self._lock = trio.Lock()
        self._sessions: dict[str, Kept[Session]] = {}
        self._runtime: Kept[Runtime] | None = None
        self.closed_workers = 0
        """Workers that runtimes started which are closed by now."""
        adapter = ClientAdapter(self.calls, self._live_in)
        approve = client_approver(self.calls, limits.ask_seconds) if approvals else None
        self._open: Callable[[], AbstractAsyncContextManager[Runtime]]
        self._open = lambda: open_runtime(principal, approve=approve, interact=adapter)

    # ------------------------------------------------------------ the runtime

    @asynccontextmanager
    async def runtime(self) -> AsyncIterator[Runtime]:
        """Use the runtime; the first use opens it.

        Raises:
            RawExecError: It can't be opened.
        """
        async with self._lock:
            kept = self._runtime
            if kept is None or not kept.is_open:
                kept = Kept(self._open)
                await kept.start(self._nursery)
                self._runtime = kept
            kept.users += 1
        try:
            yield kept.value
        finally:
            kept.users -= 1
            kept.used_at = trio.current_time()

    @property
    def opened(self) -> Runtime | None:
        """The runtime, when it is open."""
        kept = self._runtime
        return kept.value if kept is not None and kept.is_open else None

    # ------------------------------------------------------------ calls

    async def run(self, call: HostedCall, request: CallRequest) -> ToolResult:
        """Take a call to its outcome. If cancelled, nothing of it runs any more.

        Raises:
            RawExecError: The runtime, or the session's history, failed.
        """
        async with self.runtime() as runtime:
            tool = runtime.loaded.get(request.name)
            call.identity = None if tool is None else tool.identity
            if request.session is not None:
                with self.session(request.session) as session:
                    return await self._run_in(session, call, request)
            if tool is None or not (tool.manifest.panels or declares_implicitly(tool.identity)):
                return await self._run_bare(runtime, call, request)
            return await self._run_alone(runtime, call, request)

    async def _run_bare(
        self, runtime: Runtime, call: HostedCall, request: CallRequest
    ) -> ToolResult:
        made = runtime.new_call(
            request.name,
            request.arguments,
            request.options.get("cwd"),
            request.options.get("max_output_bytes"),
            call.id,
            "model",
            request.options.get("timeout_seconds"),
        )
        try:
            return await runtime.run_call(made)
        finally:
            call.stage = made.stage

    async def _run_alone(
        self, runtime: Runtime, call: HostedCall, request: CallRequest
    ) -> ToolResult:
        """Give a call with panels a session that ends, and is forgotten, with it."""
        name = self._inner_name(new_call_id())
        session = None
        try:
            async with runtime.open_session(name, on_panel=self._show) as session:
                return await self._run_in(session, call, request)
        finally:
            if session is not None:
                with trio.CancelScope(shield=True):
                    await session.history.delete_session(name)

    async def _run_in(self, session: Session, call: HostedCall, request: CallRequest) -> ToolResult:
        call.home = session
        try:
            return await session.dispatch(
                request.name, request.arguments, tool_call_id=call.id, **request.options
            )
        except BaseException as exc:
            if is_cancellation(exc):
                with trio.CancelScope(shield=True):
                    kept = await session.history.call(session.id, call.id)
                if kept is not None and kept.stage is not None:
                    call.stage = kept.stage
            raise
        finally:
            call.home = None
            # Frames that are still held back would come after the result.
            for view in session.panels():
                if view.latest.tool_call_id == call.id:
                    call.show_panel(view)

    async def _show(self, view: PanelView) -> None:
        call = self.calls.find_live(view.latest.tool_call_id)
        if call is not None:
            call.show_panel(view)

    def _live_in(self, inner_name: str) -> tuple[HostedCall, ...]:
        return tuple(
            call for call in self.calls.live if call.home is not None and call.home.id == inner_name
        )

    # ------------------------------------------------------------ sessions

    def _inner_name(self, name: str) -> str:
        # A principal's name has no slash, so no two of them can mean the same session.
        return f"{self.principal}/{name}"

    @property
    def session_names(self) -> tuple[str, ...]:
        """Open sessions."""
        return tuple(name for name, kept in self._sessions.items() if kept.is_open)

    def session(self, name: str) -> Kept[Session]:
        """Return an open session; used as a context manager, it stays open meanwhile.

        Raises:
            Refused: ``session_unknown``.
        """
        kept = self._sessions.get(name)
        if kept is None or not kept.is_open:
            raise Refused(
                "session_unknown", f"there is no open session {name!r:.150}", pointer="/session"
            )
        return kept

    async def open_session(self, name: str, *, resume: bool, cwd: str | None) -> None:
        """Open a session that stays open until it is closed, or unused for too long.

        Raises:
            Refused: ``session_exists`` or ``too_many_sessions``.
            RawExecError: The history can't be used.
        """
        if name in self._sessions:
            raise Refused("session_exists", f"there is an open session {name!r:.150}")
        if len(self._sessions) >= self._limits.sessions:
            message = f"this key has {len(self._sessions)} open sessions; close one first"
            raise Refused("too_many_sessions", message, retry_after=30)
        kept: Kept[Session] = Kept(lambda: self._opening(name, resume, cwd))
        self._sessions[name] = kept
        try:
            await kept.start(self._nursery)
        except BaseException:
            del self._sessions[name]
            raise

    @asynccontextmanager
    async def _opening(self, name: str, resume: bool, cwd: str | None) -> AsyncIterator[Session]:
        async with (
            self.runtime() as runtime,
            runtime.open_session(
                self._inner_name(name), resume=resume, cwd=cwd, on_panel=self._show
            ) as session,
        ):
            yield session

    async def close_session(self, name: str) -> None:
        """Abort the calls of a session and close it.

        Raises:
            Refused: ``session_unknown``.
        """
        kept = self.session(name)
        await self._end_session(name, kept)

    async def _end_session(self, name: str, kept: Kept[Session]) -> None:
        inside = [call for call in self.calls.live if call.session == name]
        for call in inside:
            call.abort("session_closed")
        with trio.CancelScope(shield=True):
            for call in inside:
                await call.finished.wait()
            try:
                await kept.close()
            except Exception:
                _log.exception("closing a session failed")
            finally:
                self._sessions.pop(name, None)

    # ------------------------------------------------------------ the end

    async def tidy(self, now: float) -> None:
        """Close what nobody has used for a while."""
        for name, kept in tuple(self._sessions.items()):
            if kept.is_open and kept.is_idle_since(now - self._limits.session_idle_seconds):
                await self._end_session(name, kept)
        kept_runtime = self._runtime
        if kept_runtime is None or self.calls.live or self._sessions:
            return
        if kept_runtime.is_idle_since(now - self._limits.runtime_idle_seconds):
            async with self._lock:
                if kept_runtime is self._runtime and kept_runtime.users == 0:
                    await self._close_runtime(kept_runtime)

    async def close(self) -> None:
        """Close sessions and runtime. Calls are over by then."""
        with trio.CancelScope(shield=True):
            for name, kept in tuple(self._sessions.items()):
                await self._end_session(name, kept)
            if self._runtime is not None:
                await self._close_runtime(self._runtime)

    async def _close_runtime(self, kept: Kept[Runtime]) -> None:
        self._runtime = None
        if kept.is_open:
            self.closed_workers += kept.value.statistics().pool.started
        try:
            await kept.close()
        except Exception:
            _log.exception("closing the runtime of %s failed", self.principal)


class Homes:
    """The homes of all principals.

    Args:
        open_runtime: Opens the runtime of one.
        nursery: Where runtimes and sessions are kept open.
        approvals: Whether clients approve their own calls.
    """

    def __init__(
        self,
        open_runtime: OpenRuntime,
        limits: ServiceLimits,
        nursery: trio.Nursery,
        *,
        approvals: bool,
    ) -> None:
        self._make: Callable[[str], Home] = lambda principal: Home(
            principal, open_runtime, limits, nursery, approvals=approvals
        )
        self._homes: dict[str, Home] = {}

    def of(self, principal: str) -> Home:
        """Return the home of a principal."""
        home = self._homes.get(principal)
        if home is None:
            home = self._homes[principal] = self._make(principal)
        return home

    @property
    def all(self) -> tuple[Home, ...]:
        """Every home so far."""
        return tuple(self._homes.values())

    @property
    def closed_workers(self) -> int:
        """Workers that were started by runtimes which are closed by now."""
        return sum(home.closed_workers for home in self.all)

    async def tidy_for_ever(self) -> None:
        """Close what is not used, again and again, until cancelled."""
        while True:
            await trio.sleep(_TIDY_SECONDS)
            now = trio.current_time()
            for home in self.all:
                await home.tidy(now)

    async def close(self) -> None:
        """Close all of them."""
        for home in self.all:
            await home.close()
