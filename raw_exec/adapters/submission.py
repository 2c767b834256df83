"""One call into a loop that runs in another thread: run there, delivered once."""

from __future__ import annotations

import contextvars
import types
from collections.abc import Awaitable, Callable, Coroutine, Generator
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import trio

from ..errors import RawExecError

if TYPE_CHECKING:
    from .thread import LoopThread

__all__ = ["RuntimeClosed", "Submission"]

T = TypeVar("T")


class RuntimeClosed(RawExecError):
    """The runtime was closed before the call was made, or while it ran."""

    def __init__(self, message: str) -> None:
        super().__init__("runtime_closed", message)


class Submission(Generic[T]):
    """One call into the loop. Made by ``LoopThread.submit``."""

    __slots__ = (
        "_cancelled",
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
        self._scope: trio.CancelScope | None = None
        self._cancelled = False
        self._finished = False
        self._value: Any = None
        self._error: BaseException | None = None

    def cancel(self) -> None:
        """Ask for the end of the call; from any thread, any number of times."""
        self._loop.post(self.close)

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
        self._cancelled = True
        if self._scope is not None:
            self._scope.cancel()

    async def run(self, scope: trio.CancelScope) -> None:
        """Run to the end and deliver; in the loop's thread.

        Args:
            scope: Around the task, for this submission alone while it runs.
        """
        self._scope = scope
        if self._cancelled:
            scope.cancel()
        try:
            self._value = await _in_context(self._context, _call(self._function))
            self._finished = True
        except trio.Cancelled:
            raise
        except BaseExceptionGroup as group:
            _, rest = group.split(trio.Cancelled)
            if rest is None:
                raise
            self._error = rest
        except BaseException as exc:  # it belongs to the caller, whatever it is
            self._error = exc
        finally:
            self._scope = None
            self._loop.forget(self)
            self._deliver()


async def _call(function: Callable[[], Awaitable[T]]) -> T:
    return await function()


@types.coroutine
def _in_context(
    context: contextvars.Context, coroutine: Coroutine[Any, Any, T]
) -> Generator[Any, Any, T]:
    """Run a coroutine as part of this task, with other context variables."""
    resume: Callable[[Any], Any] = coroutine.send
    sent: Any = None
    try:
        while True:
            try:
                awaited = context.run(resume, sent)
            except StopIteration as ended:
                value: T = ended.value
                return value
            try:
                resume, sent = coroutine.send, (yield awaited)
            except BaseException as exc:  # such as a cancellation
                resume, sent = coroutine.throw, exc
    finally:
        del sent  # an exception that refers to this frame
