"""The runtime for plain programs: every call waits, from any thread.

Callbacks (``approve``, ``interact``, ``on_panel``) are plain functions. Each runs in a thread
of its own, never in the one that made the call.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from types import TracebackType
from typing import Any, Generic, TypeVar

import trio

from ..approval import Answer, ApprovalRequest
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
from .opening import ToolsView, hold_session, native_thread, refuse_to_wait, returning
from .thread import Held, LoopThread

__all__ = ["Runtime", "RuntimeTools", "Session", "open_runtime"]

T = TypeVar("T")
_MAX_CALLBACKS = 1000
"""Callbacks that run at once. Each may wait for a person, so few would not do."""


def _call(loop: LoopThread[Any], function: Callable[[], Awaitable[T]]) -> T:
    """Run a function in the loop and wait; an interrupt cancels it and waits for its end."""
    refuse_to_wait(loop)
    done = threading.Lock()
    done.acquire()
    submission = loop.submit(function, done.release)
    try:
        done.acquire()
    except BaseException:  # KeyboardInterrupt, mostly; a second one gives up waiting
        submission.cancel()
        done.acquire()
        raise
    return submission.result()


class RuntimeTools(ToolsView):
    """The selected tools of a runtime: what a model is shown and what it may call."""

    def dispatch(
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
        """Take one call through every step and return its one outcome; from any thread.

        On ``KeyboardInterrupt`` the handler sees its abort signal, its process tree is killed
        and reaped, and then the interrupt goes on.

        Raises:
            ConfigError: ``cwd`` is not a directory, or an option is out of range.
            RuntimeClosed: The runtime is closed, or was while the call ran.
        """
        return _call(
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


class _Closing:
    """Something with ``close()`` that a ``with`` block closes."""

    def close(self) -> None:
        raise AssertionError("each has its own")

    def __exit__(
        self,
        kind: type[BaseException] | None,
        exc: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class Runtime(_Closing):
    """An open runtime, for plain programs. Use ``open_runtime``."""

    def __init__(self, loop: LoopThread[NativeRuntime]) -> None:
        self._loop = loop
        self._native = loop.resource
        self.registry = RuntimeTools(loop)

    @property
    def cache_key(self) -> str:
        """Digest over the model-visible definitions and the sources of the selected tools."""
        return self._native.cache_key

    def run(self, function: Callable[[NativeRuntime], Awaitable[T]]) -> T:
        """Run an async function with the native runtime, in its loop, and wait for it.

        For everything that has no method here; the function is written in trio.
        """
        return _call(self._loop, lambda: function(self._native))

    def statistics(self) -> RuntimeStatistics:
        """Return counts as of now."""
        return _call(self._loop, lambda: returning(self._native.statistics))

    def open_session(
        self,
        session_id: str | None = None,
        *,
        resume: bool = False,
        cwd: str | os.PathLike[str] | None = None,
        on_panel: Callable[[PanelView], None] | None = None,
    ) -> Session:
        """Open a session: a context manager, and ``close()``. See ``raw_exec.Runtime``.

        Raises:
            HistoryError: The history can't be used, or has such a session already.
            ConfigError: ``cwd`` is not a directory.
        """
        show = None if on_panel is None else _InThread(on_panel)

        opening = partial(
            hold_session, self._loop, session_id, resume=resume, cwd=cwd, on_panel=show
        )
        return Session(self._loop, *_call(self._loop, opening))

    def close(self) -> None:
        """Cancel what runs, end every worker and remove every private file. Twice is fine."""
        refuse_to_wait(self._loop)
        _close(self._loop)

    def __enter__(self) -> Runtime:
        return self


class Session(_Closing):
    """An open session, for plain programs. See ``raw_exec.sessions.Session``."""

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

    def run(self, function: Callable[[NativeSession], Awaitable[T]]) -> T:
        """Run an async function with the native session, in its loop, and wait for it."""
        return _call(self._loop, lambda: function(self._native))

    def _read(self, function: Callable[[], T]) -> T:
        return _call(self._loop, lambda: returning(function))

    def dispatch(self, name: str, arguments: Any, **options: Any) -> ToolResult:
        """Take one call through every step. Options are those of the native ``dispatch``."""
        return self.run(lambda session: session.dispatch(name, arguments, **options))

    def start(self, *, source: str = "startup") -> SessionDecision:
        """Tell hooks of ``SessionStart``."""
        return self.run(lambda session: session.start(source=source))

    def submit_prompt(self, prompt: str, *, turn_id: str | None = None) -> SessionDecision:
        """Ask the hooks of ``UserPromptSubmit`` whether a prompt may go to the model."""
        return self.run(lambda session: session.submit_prompt(prompt, turn_id=turn_id))

    def stop(
        self, *, turn_id: str | None = None, facts: Mapping[str, Any] | None = None
    ) -> SessionDecision:
        """Tell hooks of ``Stop``."""
        return self.run(lambda session: session.stop(turn_id=turn_id, facts=facts))

    def end(self, *, reason: str = "ended") -> SessionDecision:
        """Tell hooks of ``SessionEnd``."""
        return self.run(lambda session: session.end(reason=reason))

    def panels(self) -> tuple[PanelView, ...]:
        """Return the panels with data, in the order in which they got it."""
        return self._read(self._native.panels)

    def panel(self, panel_id: str) -> PanelView:
        """Return one panel by its full ID."""
        return self._read(lambda: self._native.panel(panel_id))

    def reminder(self) -> str:
        """Return what to tell the model of ``summary`` panels after a compaction."""
        return self._read(self._native.reminder)

    def resolve_action(self, panel_id: str, action_id: str, **place: Any) -> ResolvedAction:
        """Return what a person's selection means."""
        return self._read(lambda: self._native.resolve_action(panel_id, action_id, **place))

    def run_action(
        self, action: ResolvedAction, *, answers: Any = None, idempotency_key: str | None = None
    ) -> str | ToolResult | Acknowledgement:
        """Do what a person selected."""
        return self.run(
            lambda session: session.run_action(
                action, answers=answers, idempotency_key=idempotency_key
            )
        )

    def questions(self) -> tuple[Question, ...]:
        """Return the pending questions of this session, the oldest first."""
        return self._read(self._native.questions)

    def answer(self, request_id: str, **reply: Any) -> Acknowledgement:
        """Answer a question of this session, or decline to; options as in the native one."""
        return self.run(lambda session: session.answer(request_id, **reply))

    def close(self) -> None:
        """End the session. Twice is fine, and so is after the runtime was closed."""
        held, self._held = self._held, None
        if held is not None and self._loop.is_accepting():
            _call(self._loop, lambda: self._loop.let_go(held))

    def __enter__(self) -> Session:
        return self


def open_runtime(
    config: Config,
    *,
    cwd: str | os.PathLike[str],
    approve: Callable[[ApprovalRequest], Answer | bool | str] | None = None,
    principal: str = "default",
    node: str | NodeRuntime | None = None,
    cache_dir: str | os.PathLike[str] | None = None,
    spares: int = 1,
    audit: str | os.PathLike[str] | AuditLog | None = None,
    history: str | os.PathLike[str] | None = None,
    interact: Adapter | Callable[..., Any] | None = None,
    simulate: Sequence[str] = (),
) -> Runtime:
    """Open a runtime at once. Use it in a ``with`` block, or call ``close()``.

    Options are those of ``raw_exec.open_runtime``, except that callbacks are plain functions.

    Args:
        approve: Called in a thread with one ``ApprovalRequest``.
        interact: Called in a thread with the question and the problems of earlier answers;
            or an adapter written in trio.

    Raises:
        ConfigError: As ``raw_exec.open_runtime``, like every other error of it.
    """
    asker: Any = interact
    if interact is not None and not hasattr(interact, "ask"):
        asker = CallbackAdapter(_InThread(interact))
    loop = native_thread(
        config,
        cwd=cwd,
        approve=None if approve is None else _InThread(approve),
        interact=asker,
        options={
            "principal": principal,
            "node": node,
            "cache_dir": cache_dir,
            "spares": spares,
            "audit": audit,
            "history": history,
            "simulate": simulate,
        },
    )
    opened = threading.Event()
    loop.start(opened.set)
    try:
        opened.wait()
        loop.check_open()
    except BaseException:
        _close(loop)
        raise
    return Runtime(loop)


def _close(loop: LoopThread[Any]) -> None:
    closed = threading.Event()
    if loop.close(closed.set):
        closed.wait()
    loop.finish()


class _InThread(Generic[T]):
    """Make a plain function one that a loop can wait for; abandoned when it is cancelled."""

    def __init__(self, function: Callable[..., T]) -> None:
        self._function = function
        self._limiter: trio.CapacityLimiter | None = None

    async def __call__(self, *args: Any) -> T:
        if self._limiter is None:
            self._limiter = trio.CapacityLimiter(_MAX_CALLBACKS)
        return await trio.to_thread.run_sync(
            self._function, *args, abandon_on_cancel=True, limiter=self._limiter
        )
