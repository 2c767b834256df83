"""One runtime with the sessions of its clients, until the next one takes over.

A change of the tools opens another runtime. This one then takes no new calls, finishes those
under way, and is closed; background processes of its sessions end with it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Final, TypeAlias

import trio

from ...dispatch import ToolResult
from ...panels import PanelView
from ...panels.board import declares_implicitly
from ...policy import Verdict
from ...runtime import Runtime
from ...sessions import Session
from .calls import RunningCall
from .catalog import Catalog

__all__ = ["Generation", "Opening", "keep_generation"]

_log = logging.getLogger(__name__)

_NEED_A_SESSION: Final = ("builtin/process",)
"""Tools without panels that keep something between calls."""

Opening: TypeAlias = Callable[[], AbstractAsyncContextManager[Runtime]]


@dataclass(slots=True)
class _Kept:
    session: Session
    close: trio.Event = field(default_factory=trio.Event)


class Generation:
    """See the module.

    Args:
        runtime: An open one.
        keeps_history: Whether every call goes into a history, and so through a session.
        sessions: Where the sessions are kept open.
        calls: Where the calls run; it ends before the sessions do.
    """

    def __init__(
        self,
        runtime: Runtime,
        *,
        keeps_history: bool,
        sessions: trio.Nursery,
        calls: trio.Nursery,
    ) -> None:
        self.runtime = runtime
        self.nursery = calls
        self.catalog = Catalog(
            runtime.registry.projected("mcp"),
            runtime.cache_key,
            dialects={t.name for t in runtime.loaded.tools if "$schema" in t.manifest.input_schema},
        )
        self._keeps_history = keeps_history
        self._session_nursery = sessions
        self._lock = trio.Lock()
        self._sessions: dict[str, _Kept] = {}
        self._calls: dict[str, RunningCall] = {}
        self._finished = trio.Event()
        self._retired = False
        self._idle = trio.Event()

    # ------------------------------------------------------------ calls

    def begin(self, call: RunningCall) -> None:
        """Count a call, from before it has to wait for anything."""
        self._calls[call.id] = call

    def finish(self, call: RunningCall) -> None:
        """Uncount it."""
        del self._calls[call.id]
        self._finished.set()
        self._finished = trio.Event()
        self._check_idle()

    async def dispatch(self, call: RunningCall) -> ToolResult:
        """Run a call.

        Raises:
            HistoryError: The history can't be written.
        """
        tool = call.wanted.tool.projected
        arguments = tool.restore(call.wanted.arguments)
        if not self._needs_session(tool.tool_name):
            # A session costs more than such a call itself.
            return await self.runtime.dispatch(tool.tool_name, arguments, tool_call_id=call.id)
        session = await self._session(call.place)
        result = await session.dispatch(tool.tool_name, arguments, tool_call_id=call.id)
        for view in session.panels():
            if view.latest.tool_call_id == call.id:
                call.note_panel(view)  # its last frame may still wait for its turn
        return result

    def _needs_session(self, name: str) -> bool:
        tool = self.runtime.loaded.get(name)
        if tool is None:
            return False
        if self._keeps_history or tool.manifest.panels or tool.identity in _NEED_A_SESSION:
            return True
        return declares_implicitly(tool.identity)

    def is_quiet(self, call: RunningCall) -> bool:
        """Say whether nothing can be told of a call before its end: no panels, no questions."""
        name = call.wanted.tool.projected.tool_name
        tool = self.runtime.loaded.get(name)
        if tool is None:
            return True
        policy = tool.policy
        asks = policy.is_conditional or policy.evaluate({}).verdict is not Verdict.ALLOW
        return not (asks or policy.reviewing or self._needs_session(name))

    # ------------------------------------------------------------ sessions

    async def _session(self, place: str) -> Session:
        async with self._lock:
            kept = self._sessions.get(place)
            if kept is None:
                kept = self._sessions[place] = await self._session_nursery.start(self._keep, place)
            return kept.session

    async def _keep(self, place: str, *, task_status: trio.TaskStatus[_Kept]) -> None:
        async with self.runtime.open_session(on_panel=self._on_panel) as session:
            kept = _Kept(session)
            task_status.started(kept)
            await trio.lowlevel.checkpoint_if_cancelled()  # nobody may have got it
            # A call that is aborted still has to store what became of it.
            with trio.CancelScope(shield=True):
                await kept.close.wait()
                while any(call.place == place for call in self._calls.values()):
                    await self._finished.wait()

    async def _on_panel(self, view: PanelView) -> None:
        call = self._calls.get(view.latest.tool_call_id)
        if call is not None:
            call.note_panel(view)

    def close_session(self, place: str) -> None:
        """End the session of a client that is gone, once its last call has ended."""
        kept = self._sessions.pop(place, None)
        if kept is not None:
            kept.close.set()

    # ------------------------------------------------------------ the end

    def retire(self) -> None:
        """Take no new calls, and end once there are none."""
        self._retired = True
        self._check_idle()

    def _check_idle(self) -> None:
        if self._retired and not self._calls:
            self._idle.set()

    async def wait_finished(self) -> None:
        """Return once it is retired and its last call has ended."""
        await self._idle.wait()

    async def wait_calls(self) -> None:
        """Give up the calls that still run somewhere, and wait for their ends."""
        for call in list(self._calls.values()):
            call.give_up()
        self.retire()
        with trio.CancelScope(shield=True):
            await self._idle.wait()

    def close_sessions(self) -> None:
        """End every session."""
        for place in list(self._sessions):
            self.close_session(place)


async def keep_generation(
    opening: Opening, *, keeps_history: bool, task_status: trio.TaskStatus[Generation]
) -> None:
    """Open a runtime and keep it open until its generation is retired and idle.

    Raises:
        RawExecError: It can't be opened.
    """
    async with opening() as runtime, trio.open_nursery() as sessions:
        generation = None
        try:
            async with trio.open_nursery() as calls:
                generation = Generation(
                    runtime, keeps_history=keeps_history, sessions=sessions, calls=calls
                )
                for text in (*runtime.loaded.warnings, *generation.catalog.warnings()):
                    _log.warning("%s", text)
                task_status.started(generation)
                await generation.wait_finished()
        finally:
            if generation is not None:
                await generation.wait_calls()
                generation.close_sessions()
