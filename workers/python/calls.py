"""Running one call: the context a handler gets, its abort signal, and what is awaitable.

The control pipe is read by a thread of its own, started when a handler first looks at
``context.signal`` and never before: whoever does not look cannot tell the difference.
"""

from __future__ import annotations

import builtins
from _thread import allocate_lock, start_new_thread
from os import _exit

from .frames import CONTROL_FD, FrameSource

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn

globals()["__builtins__"] = dict(vars(builtins))

__all__ = ["Context", "Control", "Signal", "is_awaitable"]


class Signal:
    """Tells a handler that its call was aborted.

    A synchronous handler's callbacks run on a helper thread; an asynchronous handler's run
    in its event loop.
    """

    __slots__ = ("_callbacks", "_gate", "_lock", "_reason", "_run")

    def __init__(self, run: Callable[[Callable[[], object]], object] | None) -> None:
        self._reason: str | None = None
        self._callbacks: list[Callable[[], object]] = []
        self._lock = allocate_lock()
        self._gate = allocate_lock()  # held until the abort
        self._gate.acquire()
        self._run = run

    @property
    def aborted(self) -> bool:
        """Whether the call was aborted."""
        return self._reason is not None

    @property
    def reason(self) -> str | None:
        """Why, or None while it was not."""
        return self._reason

    def wait(self, timeout: float | None = None) -> bool:
        """Block until the abort, for at most ``timeout`` seconds; return whether it came."""
        if self._gate.acquire(timeout=-1 if timeout is None else max(0.0, timeout)):
            self._gate.release()
            return True
        return False

    def add_callback(self, callback: Callable[[], object]) -> None:
        """Call ``callback()`` once, at the abort; at once if that has been."""
        with self._lock:
            if self._reason is None:
                self._callbacks.append(callback)
                return
        callback()

    def _fire(self, reason: str) -> None:
        with self._lock:
            if self._reason is not None:
                return
            self._reason = reason
            callbacks, self._callbacks = self._callbacks, []
        self._gate.release()
        for callback in callbacks:
            try:
                if self._run is None:
                    callback()
                else:
                    self._run(callback)
            except BaseException:  # noqa: S112
                # The plugin's own code, on our thread: nobody is there to catch it.
                continue


class Control:
    """The control pipe: which call runs, and which was aborted."""

    __slots__ = ("_aborted", "_call_id", "_lock", "_run", "_signal", "threads")

    def __init__(self) -> None:
        self._lock = allocate_lock()
        self._call_id = 0
        self._signal: Signal | None = None
        self._run: Callable[[Callable[[], object]], object] | None = None
        self._aborted: tuple[int, str] = (0, "")
        self.threads = 0

    def begin(self, call_id: int) -> None:
        """Note that a call began."""
        with self._lock:
            self._call_id = call_id
            self._signal = None
            self._run = None

    def deliver_with(self, run: Callable[[Callable[[], object]], object]) -> None:
        """Run the callbacks of the current call's signal through ``run``."""
        with self._lock:
            self._run = run
            if self._signal is not None:
                self._signal._run = run

    def end(self) -> None:
        """Note that the call ended: later aborts for it are ignored."""
        with self._lock:
            self._call_id = 0
            self._signal = None

    def signal_of(self, call_id: int) -> Signal:
        """Return the signal of a call, and begin to read the pipe if nobody does."""
        with self._lock:
            if call_id != self._call_id:
                signal = Signal(None)
                signal._fire("the call has ended")
                return signal
            if self._signal is None:
                self._signal = Signal(self._run)
                if self._aborted[0] == call_id:
                    self._signal._fire(self._aborted[1])
            signal = self._signal
            if self.threads == 0:
                self.threads = 1
                start_new_thread(self._read, ())
        return signal

    def _read(self) -> NoReturn:
        source = FrameSource(CONTROL_FD)
        while True:
            try:
                message = source.read_message()
            except OSError:
                message = None
            if message is None:
                # The supervisor is gone, or the plugin closed the pipe.
                _exit(0)
            if message.get("t") == "abort":
                self._abort(message["id"], message["reason"])

    def _abort(self, call_id: int, reason: str) -> None:
        with self._lock:
            # Remembered: it may be read before its call is, by this other thread.
            self._aborted = (call_id, reason)
            signal = self._signal if call_id == self._call_id else None
        if signal is not None:
            signal._fire(reason)


class Context:
    """What a handler gets beside its arguments. Read only."""

    __slots__ = ("_call_id", "_control", "_cwd", "_max_output_bytes", "_tool_call_id")

    def __init__(self, message: dict[str, Any], control: Control) -> None:
        put = object.__setattr__
        put(self, "_control", control)
        put(self, "_call_id", message["id"])
        put(self, "_cwd", message["cwd"])
        put(self, "_max_output_bytes", message["max_output_bytes"])
        put(self, "_tool_call_id", message["tool_call_id"])

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"context is read-only; cannot set {name!r}")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"context is read-only; cannot delete {name!r}")

    @property
    def cwd(self) -> str:
        """Absolute directory that relative paths in the arguments mean."""
        return self._cwd  # type: ignore[attr-defined,no-any-return]

    @property
    def signal(self) -> Signal:
        """Tells when the call is aborted."""
        return self._control.signal_of(self._call_id)  # type: ignore[attr-defined,no-any-return]

    @property
    def max_output_bytes(self) -> int:
        """How much of the result the caller will keep."""
        return self._max_output_bytes  # type: ignore[attr-defined,no-any-return]

    @property
    def tool_call_id(self) -> str:
        """The caller's name for this call."""
        return self._tool_call_id  # type: ignore[attr-defined,no-any-return]

    maxOutputBytes = max_output_bytes  # noqa: N815 - the contract's spelling
    toolCallId = tool_call_id  # noqa: N815


def is_awaitable(value: object) -> bool:
    """Return whether ``await value`` can work, without running any of its code."""
    if type(value) is dict:
        return False
    return any("__await__" in vars(kind) for kind in type(value).__mro__)
