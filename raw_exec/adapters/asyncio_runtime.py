"""The runtime for asyncio programs, from any number of asyncio loops and threads.

Callbacks (``approve``, ``interact``, ``on_panel``) are plain or async functions. They run in
the asyncio loop in which the runtime was opened, with the context variables of the call.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Coroutine, Generator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import TracebackType
from typing import Any, TypeVar

from ..approval import AbortSignal, Answer, ApprovalRequest
from ..config import Config
from ..dispatch import ToolResult
from ..dispatch.audit import AuditLog
from ..hooks import SessionDecision
from ..interactions import Acknowledgement, Adapter, CallbackAdapter, Question
from ..panels import PanelView, ResolvedAction
from ..pool import NodeRuntime
from ..runtime import Runtime as NativeRuntime
from ..runtime import RuntimeStatistics
from ..sessions import Session as NativeSession
from .asyncio_bridge import call_in_loop, call_in_thread, wait_for_thread
from .opening import ToolsView, hold_session, native_thread, returning
from .thread import Held, LoopThread

__all__ = ["AsyncioAbortSignal", "Runtime", "RuntimeTools", "Session", "open_runtime"]

T = TypeVar("T")


class AsyncioAbortSignal(AbortSignal):
    """Tells an asyncio approver that its answer is no longer wanted."""

    def __init__(self, native: AbortSignal, loop: LoopThread[NativeRuntime]) -> None:
        # The base has a trio event, which this does not need.
        self._native = native
        self._loop = loop

    @property
    def aborted(self) -> bool:
        """Whether the call has been given up."""
        return self._native.aborted

    @property
    def reason(self) -> str | None:  # type: ignore[override]
        """Why it was given up."""
        return self._native.reason

    async def wait(self) -> None:
        """Return once the call has been given up. The approver is cancelled then as well."""
        await call_in_thread(self._loop, self._native.wait)


class RuntimeTools(ToolsView):
    """The selected tools of a runtime: what a model is shown and what it may call."""

    async def dispatch(
        self,
        name: str,
        arguments: Any,
        *,
        cwd: str | os.PathLike[str] | None = None,
        max_output_bytes: int | None = None,
        tool_call_id: str | None = None,
        source: str = "model",
        timeout_seconds: float | None = None,
        dry_run: bool = False,
    ) -> ToolResult:
        """Take one call through every step and return its one outcome.

        When the task is cancelled, the handler sees its abort signal, gets the grace period,
        its process tree is killed and reaped, and then ``CancelledError`` goes on.

        Raises:
            ConfigError: ``cwd`` is not a directory, or an option is out of range.
            RuntimeClosed: The runtime is closed, or was while the call ran.
        """
        return await call_in_thread(
            self._loop,
            lambda: self._native.dispatch(
                name,
                arguments,
                cwd=cwd,
                max_output_bytes=max_output_bytes,
                tool_call_id=tool_call_id,
                source=source,
                timeout_seconds=timeout_seconds,
                dry_run=dry_run,
            ),
        )


class Runtime:
    """An open runtime, for asyncio programs. Use ``open_runtime``."""

    def __init__(self, loop: LoopThread[NativeRuntime]) -> None:
        self._loop = loop
        self._native = loop.resource
        self.registry = RuntimeTools(loop)

    @property
    def cache_key(self) -> str:
        """Digest over the model-visible definitions and the sources of the selected tools."""
        return self._native.cache_key

    async def run(self, function: Callable[[NativeRuntime], Awaitable[T]]) -> T:
        """Run an async function with the native runtime, in its loop.

        For everything that has no method here; the function is written in trio.
        """
        return await call_in_thread(self._loop, lambda: function(self._native))

    async def statistics(self) -> RuntimeStatistics:
        """Return counts as of now."""
        return await self.run(lambda runtime: returning(runtime.statistics))

    def open_session(
        self,
        session_id: str | None = None,
        *,
        resume: bool = False,
        cwd: str | os.PathLike[str] | None = None,
        on_panel: Callable[[PanelView], Awaitable[None] | None] | None = None,
    ) -> _Opening[Session]:
        """Open a session: ``async with``, or ``await`` it and call ``close()``.

        Raises:
            HistoryError: The history can't be used, or has such a session already.
            ConfigError: ``cwd`` is not a directory.
        """

        async def start() -> Session:
            show = None
            if on_panel is not None:
                show = call_in_loop(asyncio.get_running_loop(), on_panel)

            opening = partial(
                hold_session, self._loop, session_id, resume=resume, cwd=cwd, on_panel=show
            )
            return Session(self._loop, *await call_in_thread(self._loop, opening))

        return _Opening(start)

    async def close(self) -> None:
        """Cancel what runs, end every worker and remove every private file. Twice is fine."""
        await wait_for_thread(self._loop)


class Session:
    """An open session, for asyncio programs. See ``raw_exec.sessions.Session``.

    What the native session answers at once is awaited here, since it is read in its thread.
    """

    def __init__(
        self,
        loop: LoopThread[NativeRuntime],
        native: NativeSession,
        held: Held[NativeSession],
    ) -> None:
        self._loop = loop
        self._native = native
        self._held: Held[NativeSession] | None = held
        self.id = native.id

    async def run(self, function: Callable[[NativeSession], Awaitable[T]]) -> T:
        """Run an async function with the native session, in its loop."""
        return await call_in_thread(self._loop, lambda: function(self._native))

    async def _read(self, function: Callable[[], T]) -> T:
        return await call_in_thread(self._loop, lambda: returning(function))

    async def dispatch(self, name: str, arguments: Any, **options: Any) -> ToolResult:
        """Take one call through every step. Options are those of the native ``dispatch``."""
        return await self.run(lambda session: session.dispatch(name, arguments, **options))

    async def start(self, *, source: str = "startup") -> SessionDecision:
        """Tell hooks of ``SessionStart``."""
        return await self.run(lambda session: session.start(source=source))

    async def submit_prompt(self, prompt: str, *, turn_id: str | None = None) -> SessionDecision:
        """Ask the hooks of ``UserPromptSubmit`` whether a prompt may go to the model."""
        return await self.run(lambda session: session.submit_prompt(prompt, turn_id=turn_id))

    async def stop(
        self, *, turn_id: str | None = None, facts: Mapping[str, Any] | None = None
    ) -> SessionDecision:
        """Tell hooks of ``Stop``."""
        return await self.run(lambda session: session.stop(turn_id=turn_id, facts=facts))

    async def end(self, *, reason: str = "ended") -> SessionDecision:
        """Tell hooks of ``SessionEnd``."""
        return await self.run(lambda session: session.end(reason=reason))

    async def panels(self) -> tuple[PanelView, ...]:
        """Return the panels with data, in the order in which they got it."""
        return await self._read(self._native.panels)

    async def panel(self, panel_id: str) -> PanelView:
        """Return one panel by its full ID."""
        return await self._read(lambda: self._native.panel(panel_id))

    async def reminder(self) -> str:
        """Return what to tell the model of ``summary`` panels after a compaction."""
        return await self._read(self._native.reminder)

    async def resolve_action(self, panel_id: str, action_id: str, **place: Any) -> ResolvedAction:
        """Return what a person's selection means."""
        return await self._read(lambda: self._native.resolve_action(panel_id, action_id, **place))

    async def run_action(
        self, action: ResolvedAction, *, answers: Any = None, idempotency_key: str | None = None
    ) -> str | ToolResult | Acknowledgement:
        """Do what a person selected."""
        return await self.run(
            lambda session: session.run_action(
                action, answers=answers, idempotency_key=idempotency_key
            )
        )

    async def questions(self) -> tuple[Question, ...]:
        """Return the pending questions of this session, the oldest first."""
        return await self._read(self._native.questions)

    async def answer(self, request_id: str, **reply: Any) -> Acknowledgement:
        """Answer a question of this session, or decline to; options as in the native one."""
        return await self.run(lambda session: session.answer(request_id, **reply))

    async def close(self) -> None:
        """End the session. Twice is fine, and so is after the runtime was closed."""
        held, self._held = self._held, None
        if held is not None and self._loop.is_accepting():
            await call_in_thread(self._loop, lambda: self._loop.let_go(held))


_Closable = TypeVar("_Closable", bound="Runtime | Session")


class _Opening(Awaitable[_Closable]):
    """What ``open_…`` returns: to be awaited, or to be entered with ``async with``."""

    def __init__(self, start: Callable[[], Coroutine[Any, Any, _Closable]]) -> None:
        self._start = start
        self._opened: _Closable | None = None

    def __await__(self) -> Generator[Any, Any, _Closable]:
        return self._start().__await__()

    async def __aenter__(self) -> _Closable:
        self._opened = await self
        return self._opened

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        exc: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._opened is not None:
            await self._opened.close()


def open_runtime(
    config: Config,
    *,
    cwd: str | os.PathLike[str],
    approve: Callable[[ApprovalRequest], Any] | None = None,
    principal: str = "default",
    node: str | NodeRuntime | None = None,
    cache_dir: str | os.PathLike[str] | None = None,
    spares: int = 1,
    audit: str | os.PathLike[str] | AuditLog | None = None,
    history: str | os.PathLike[str] | None = None,
    interact: Adapter | Callable[..., Any] | None = None,
    simulate: Sequence[str] = (),
) -> _Opening[Runtime]:
    """Open a runtime: ``async with``, or ``await`` it and call ``close()`` at the end.

    Options are those of ``raw_exec.open_runtime``, except for the callbacks.

    Args:
        approve: A plain or async function, called in this asyncio loop with one
            ``ApprovalRequest``; cancelled when the call is given up.
        interact: A plain or async function, called in this asyncio loop with the question
            and the problems of earlier answers; or an adapter written in trio.

    Raises:
        ConfigError: As ``raw_exec.open_runtime``, like every other error of it.
    """
    options = {
        "principal": principal,
        "node": node,
        "cache_dir": cache_dir,
        "spares": spares,
        "audit": audit,
        "history": history,
        "simulate": simulate,
    }

    async def start() -> Runtime:
        here = asyncio.get_running_loop()
        asker: Any = interact
        if interact is not None and not hasattr(interact, "ask"):
            asker = CallbackAdapter(call_in_loop(here, interact))
        thread = native_thread(
            config,
            cwd=cwd,
            approve=None if approve is None else _approver(here, approve, lambda: thread),
            interact=asker,
            options=options,
        )
        await wait_for_thread(thread, opening=True)
        return Runtime(thread)

    return _Opening(start)


def _approver(
    here: asyncio.AbstractEventLoop,
    approve: Callable[[ApprovalRequest], Any],
    thread: Callable[[], LoopThread[NativeRuntime]],
) -> Callable[[ApprovalRequest], Awaitable[Any]]:
    asking = call_in_loop(here, approve)

    async def ask(request: ApprovalRequest) -> Answer | bool | str:
        answer: Answer | bool | str = await asking(
            replace(request, signal=AsyncioAbortSignal(request.signal, thread()))
        )
        return answer

    return ask
