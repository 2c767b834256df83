"""A trio loop in a thread of its own, and calls into it from any other thread.

Rules
1. A call is delivered exactly once, in the loop's thread, and only when nothing of it runs
   any more: cancelling asks, delivery answers.
2. Nothing is accepted once closing has begun; what is in flight is cancelled first, then
   what is held open is let go, then the resource is closed, then the thread ends.
3. A forked child owns nothing of this: calls are refused there and closing does nothing.
4. When the main thread has ended, every loop that is still open is closed, so a program
   that forgot to close one ends, and leaves no process behind.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from enum import Enum
from typing import Any, Generic, TypeVar

import trio

from .submission import RuntimeClosed, Submission

__all__ = ["Held", "LoopThread", "RuntimeClosed", "Submission"]

R = TypeVar("R")
T = TypeVar("T")
_MAX_PARKED = 16
"""Tasks that wait for another call."""


class _State(Enum):
    NEW = "new"
    OPEN = "open"
    CLOSING = "closing"
    CLOSED = "closed"


class Held(Generic[T]):
    """An async context manager that a task of the loop keeps open."""

    def __init__(self, manager: AbstractAsyncContextManager[T]) -> None:
        self._manager = manager
        self._release = trio.Event()
        self._ready = trio.Event()
        self._gone = trio.Event()
        self._scope = trio.CancelScope()
        self._value: list[T] = []
        self._error: BaseException | None = None

    async def run(self) -> None:
        """Keep it open until it is to be let go."""
        try:
            with self._scope:
                async with self._manager as value:
                    self._value.append(value)
                    self._ready.set()
                    await self._release.wait()
        except BaseException as exc:  # raised where it is opened or closed
            self._error = exc
        finally:
            self._ready.set()
            self._gone.set()

    async def wait_open(self) -> T:
        """Return the value.

        Raises:
            RuntimeClosed: The runtime was closed first.
        """
        try:
            await self._ready.wait()
        except trio.Cancelled:
            self._scope.cancel()
            with trio.CancelScope(shield=True):
                await self._gone.wait()
            raise
        if self._error is not None:
            error, self._error = self._error, None
            raise error
        if not self._value:
            raise RuntimeClosed("the runtime was closed while this was opened")
        return self._value[0]

    async def close(self) -> None:
        """Let go and wait for the end, which can't be cancelled."""
        self._release.set()
        with trio.CancelScope(shield=True):
            await self._gone.wait()
        if self._error is not None:
            error, self._error = self._error, None
            raise error

    def release(self) -> None:
        """Let go; in the loop's thread."""
        self._release.set()
        if not self._value:
            self._scope.cancel()


class _Parked:
    """A task that waits for another call. Made in that task."""

    __slots__ = ("_task", "submission")

    def __init__(self) -> None:
        self._task = trio.lowlevel.current_task()
        self.submission: Submission[Any] | None = None

    def go_on(self, submission: Submission[Any] | None) -> None:
        """Let the task go on with a call, or end without one."""
        self.submission = submission
        trio.lowlevel.reschedule(self._task)


class LoopThread(Generic[R]):
    """A thread with a trio loop that keeps one resource open.

    Args:
        open_resource: Called in the loop; gives the context manager of the resource.
        name: Of the thread.
        on_fork: Called in a forked child with the resource, to let go of what it inherited.
    """

    def __init__(
        self,
        open_resource: Callable[[], AbstractAsyncContextManager[R]],
        *,
        name: str,
        on_fork: Callable[[R], None] | None = None,
    ) -> None:
        self._open_resource = open_resource
        self._on_fork = on_fork
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._state = _State.NEW
        self._resource: R | None = None
        self._failure: BaseException | None = None
        self._on_open: Callable[[], None] | None = None
        self._on_closed: list[Callable[[], None]] = []
        self._token: trio.lowlevel.TrioToken | None = None
        self._live: set[Submission[Any]] = set()
        self._parked: list[_Parked] = []
        self._held: set[Held[Any]] = set()
        # Not a daemon: the interpreter waits until workers are dead and files are removed.
        self._thread = threading.Thread(target=self._run, name=name, daemon=False)

    # ------------------------------------------------------------ from any thread

    @property
    def resource(self) -> R:
        """What is kept open.

        Raises:
            RuntimeClosed: It is not open yet.
        """
        if self._resource is None:
            raise RuntimeClosed("the runtime is not open")
        return self._resource

    def start(self, on_open: Callable[[], None]) -> None:
        """Start the thread; ``on_open`` is called in it once it is open or has failed."""
        self._on_open = on_open
        _register(self)
        self._thread.start()

    def check_open(self) -> None:
        """Raise the error of a failed opening, after ``on_open``."""
        if self._failure is not None:
            raise self._failure
        if self._state is not _State.OPEN:
            raise RuntimeClosed("the runtime was closed while it was opened")

    def submit(
        self, function: Callable[[], Awaitable[T]], deliver: Callable[[], None]
    ) -> Submission[T]:
        """Run an async function in the loop.

        Args:
            function: Called in the loop, with a copy of the caller's context variables.
            deliver: Called in the loop's thread once nothing of the call runs any more; it
                must not block and must not raise.

        Raises:
            RuntimeClosed: The runtime is closed, closing, or belongs to the parent process.
        """
        submission = Submission(self, function, deliver)
        if self._pid != os.getpid():
            raise RuntimeClosed("the runtime belongs to the process that forked this one")
        with self._lock:
            if self._state is not _State.OPEN or self._token is None:
                raise RuntimeClosed("the runtime is closed")
            # Invariant: posted in the order of acceptance, so before the end of the loop is.
            self._token.run_sync_soon(self._begin, submission)
        return submission

    def post(self, function: Callable[[], object]) -> None:
        """Call a function in the loop's thread soon, or never if the loop has ended."""
        if self._pid != os.getpid() or self._token is None:
            return
        try:
            self._token.run_sync_soon(function)
        except trio.RunFinishedError:
            pass  # everything was delivered before

    def close(self, on_closed: Callable[[], None]) -> bool:
        """Begin to close.

        Args:
            on_closed: Called in the loop's thread at its very end.

        Returns:
            False if there is nothing to wait for, and ``on_closed`` will not be called.
        """
        if self._pid != os.getpid():
            return False
        with self._lock:
            if self._state is _State.CLOSED:
                return False
            self._on_closed.append(on_closed)
            self._state = _State.CLOSING
        self.post(self._end)
        return True

    def finish(self) -> None:
        """Wait for the thread, which is ending, and raise what went wrong while closing."""
        if self._pid != os.getpid():
            return
        self._thread.join()
        if self._failure is not None and self._resource is not None:
            failure, self._failure = self._failure, None
            raise failure

    def is_accepting(self) -> bool:
        """Say whether a call would be accepted now."""
        return self._state is _State.OPEN and self._pid == os.getpid()

    def is_own_thread(self) -> bool:
        """Say whether this is the loop's thread, where waiting for the loop never ends."""
        return threading.get_ident() == self._thread.ident

    def after_fork_in_child(self) -> None:
        """Let go of what a forked child inherited."""
        if self._on_fork is not None and self._resource is not None:
            self._on_fork(self._resource)

    # ------------------------------------------------------------ in the loop's thread

    def forget(self, submission: Submission[Any]) -> None:
        """Take a call that has ended off the list."""
        self._live.discard(submission)

    async def hold(self, manager: AbstractAsyncContextManager[T]) -> tuple[T, Held[T]]:
        """Open a context manager in a task of its own, which keeps it open."""
        held = Held(manager)
        self._held.add(held)
        self._holders.start_soon(held.run)
        try:
            return await held.wait_open(), held
        except BaseException:
            self._held.discard(held)
            raise

    async def let_go(self, held: Held[Any]) -> None:
        """Close what is held; later times do nothing."""
        self._held.discard(held)
        await held.close()

    def _begin(self, submission: Submission[Any]) -> None:
        self._live.add(submission)
        if self._parked:
            self._parked.pop().go_on(submission)
        else:
            self._calls.start_soon(self._run_calls, submission)

    async def _run_calls(self, submission: Submission[Any] | None) -> None:
        """Run one call after another: a task and a scope for each would cost as much as a hop.

        The scope belongs to the call that runs; once it is cancelled the task ends with it.
        """
        with trio.CancelScope() as scope:
            while submission is not None:
                await submission.run(scope)
                if (
                    scope.cancel_called
                    or self._closing.is_set()
                    or len(self._parked) >= _MAX_PARKED
                ):
                    return
                submission = await self._wait_for_call()

    async def _wait_for_call(self) -> Submission[Any] | None:
        """Return the next call for this task; ``None`` when there will be none."""
        parked = _Parked()
        self._parked.append(parked)

        def abort(_raise: object) -> trio.lowlevel.Abort:
            self._parked.remove(parked)
            return trio.lowlevel.Abort.SUCCEEDED

        await trio.lowlevel.wait_task_rescheduled(abort)
        return parked.submission

    def _end(self) -> None:
        if self._resource is None:
            self._opening.cancel()
        self._closing.set()

    def _run(self) -> None:
        try:
            trio.run(self._main)
        except BaseException as exc:  # raised to whoever opens or closes
            self._failure = exc
        finally:
            with self._lock:
                self._state = _State.CLOSED
                waiting, self._on_closed = self._on_closed, []
            if self._resource is None and self._on_open is not None:
                self._on_open()
            for told in waiting:
                told()

    async def _main(self) -> None:
        self._closing = trio.Event()
        self._opening = trio.CancelScope()
        self._token = trio.lowlevel.current_trio_token()
        if self._state is _State.CLOSING:
            return
        with self._opening:
            async with self._open_resource() as resource:
                await self._serve(resource)

    async def _serve(self, resource: R) -> None:
        async with trio.open_nursery() as self._holders:
            async with trio.open_nursery() as self._calls:
                self._resource = resource
                with self._lock:
                    if self._state is _State.NEW:
                        self._state = _State.OPEN
                if self._on_open is not None:
                    self._on_open()
                await self._closing.wait()
                for submission in list(self._live):
                    submission.close()
                while self._parked:
                    self._parked.pop().go_on(None)
            for held in list(self._held):
                held.release()


# ---------------------------------------------------------------- the end of the program, forks

_loops: weakref.WeakSet[LoopThread[Any]] = weakref.WeakSet()
_guard = threading.Lock()
_watching = False


def _register(loop: LoopThread[Any]) -> None:
    global _watching
    with _guard:
        _loops.add(loop)
        if not _watching:
            _watching = True
            threading.Thread(target=_watch_main, name="raw-exec-exit", daemon=True).start()


def _watch_main() -> None:
    """Close what is open once the main thread has ended.

    The interpreter waits for the loops' threads before it runs exit functions, so that
    such a function would come too late.
    """
    threading.main_thread().join()
    with _guard:
        loops = list(_loops)
    for loop in loops:
        loop.close(lambda: None)


def _after_fork_in_child() -> None:
    """Let go of the parent's launchers: one must see the end of its parent, not of a child."""
    global _loops, _guard, _watching
    inherited = list(_loops)
    _loops, _guard, _watching = weakref.WeakSet(), threading.Lock(), False
    for loop in inherited:
        loop.after_fork_in_child()


os.register_at_fork(after_in_child=_after_fork_in_child)
