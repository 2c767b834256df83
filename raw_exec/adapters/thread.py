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

import contextvars
import os
import threading
import weakref
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from enum import Enum
from typing import Any, Generic, TypeVar

import trio

from ..errors import RawExecError

__all__ = ["Held", "LoopThread", "RuntimeClosed", "Submission"]

R = TypeVar("R")
T = TypeVar("T")


class RuntimeClosed(RawExecError):
    """The runtime was closed before the call was made, or while it ran."""

    def __init__(self, message: str) -> None:
        super().__init__("runtime_closed", message)


class _State(Enum):
    NEW = "new"
    OPEN = "open"
    CLOSING = "closing"
    CLOSED = "closed"


class Submission(Generic[T]):
    """One call into the loop. Made by ``LoopThread.submit``."""

    __slots__ = (
        "_context",
        "_deliver",
        "_error",
        "_finished",
        "_function",
        "_loop",
        "_scope",
        "_value",
    )

    def __init__(
        self,
        loop: LoopThread[Any],
        function: Callable[[], Awaitable[T]],
        deliver: Callable[[], None],
    ) -> None:
        self._loop = loop
        self._function = function
        self._deliver = deliver
        # What the caller has in its context, an approver that is asked for the call sees too.
        self._context = contextvars.copy_context()
        self._scope = trio.CancelScope()
        self._finished = False
        self._value: Any = None
        self._error: BaseException | None = None

    def cancel(self) -> None:
        """Ask for the end of the call; from any thread, any number of times."""
        self._loop.post(self._scope.cancel)

    def result(self) -> T:
        """Return what the function returned, or raise what it raised. After delivery only."""
        if self._error is not None:
            raise self._error
        if not self._finished:
            raise RuntimeClosed("the runtime was closed while the call ran")
        value: T = self._value
        return value

    def close(self) -> None:
        """Cancel for good; in the loop's thread."""
        self._scope.cancel()

    def start(self, nursery: trio.Nursery) -> None:
        """Begin; in the loop's thread."""
        self._context.run(nursery.start_soon, self._run)

    async def _run(self) -> None:
        try:
            with self._scope:
                self._value = await self._function()
                self._finished = True
        except BaseException as exc:  # it belongs to the caller, whatever it is
            self._error = exc
        finally:
            self._loop.forget(self)
            self._deliver()


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
        submission.start(self._calls)

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
