"""Running one call: the context a handler gets, its abort signal, and what is awaitable.

The control pipe is read by a thread of its own, started when a handler first looks at
``context.signal`` or asks for a variable, and never before: whoever does neither cannot
tell the difference.
"""

from __future__ import annotations

import builtins
from _thread import allocate_lock, start_new_thread
from os import _exit

from .frames import CONTROL_FD, FrameSource, pack, send_packed
from .panels import Interactions, Panels
from .variables import Variables, Waiter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn, TypeVar

    Part = TypeVar("Part", Variables, Panels, Interactions)

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
    """The control pipe: which call runs, which was aborted, and what answers came."""

    __slots__ = (
        "_aborted",
        "_call_id",
        "_last_rid",
        "_lock",
        "_run",
        "_sending",
        "_signal",
        "_waiters",
        "threads",
    )

    def __init__(self) -> None:
        self._lock = allocate_lock()
        # Race: a request of a plugin's thread must not come after the result of its call,
        # and the thread that delivers answers must not wait for a pipe that is full.
        self._sending = allocate_lock()
        self._waiters: dict[int, Waiter] = {}
        self._last_rid = 0
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
        """Note that the call ended: later aborts and answers for it are ignored."""
        with self._sending, self._lock:
            self._call_id = 0
            self._signal = None
            waiters, self._waiters = self._waiters, {}
        for waiter in waiters.values():
            waiter.deliver(None, _ENDED)

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
            self._start_reading()
        return signal

    def ask(self, call_id: int, method: str, params: dict[str, Any], waiter: Waiter) -> None:
        """Send a request of a call; ``waiter`` gets the answer, or why there is none."""
        with self._sending:
            with self._lock:
                error = None if call_id == self._call_id else _ENDED
                if error is None and self._aborted[0] == call_id:
                    error = _aborted_error(self._aborted[1])
                if error is None:
                    self._start_reading()
                    self._last_rid += 1
                    rid = self._last_rid
                    self._waiters[rid] = waiter
            if error is None:
                message = {"t": "request", "id": call_id, "rid": rid}
                send_packed(pack({**message, "method": method, "params": params}))
                return
        waiter.deliver(None, error)

    def _start_reading(self) -> None:
        if self.threads == 0:
            start_new_thread(self._read, ())
            self.threads = 1

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
            elif message.get("t") == "reply":
                self._reply(message)

    def _reply(self, message: dict[str, Any]) -> None:
        with self._lock:
            # An answer for a finished call is normal: it crossed the result.
            current = message["id"] == self._call_id
            waiter = self._waiters.pop(message["rid"], None) if current else None
        if waiter is not None:
            waiter.deliver(message["value"], message["error"])

    def _abort(self, call_id: int, reason: str) -> None:
        with self._lock:
            # Remembered: it may be read before its call is, by this other thread.
            self._aborted = (call_id, reason)
            current = call_id == self._call_id
            signal = self._signal if current else None
            waiters = list(self._waiters.values()) if current else []
            if current:
                self._waiters = {}
        if signal is not None:
            signal._fire(reason)
        for waiter in waiters:
            waiter.deliver(None, _aborted_error(reason))


_ENDED = {"code": "ended", "message": "the call has ended"}


def _aborted_error(reason: str) -> dict[str, str]:
    return {"code": "aborted", "message": f"the call was aborted: {reason}"}


class Context:
    """What a handler gets beside its arguments. Read only."""

    __slots__ = ("_call_id", "_control", "_cwd", "_max_output_bytes", "_parts", "_tool_call_id")

    def __init__(self, message: dict[str, Any], control: Control) -> None:
        put = object.__setattr__
        put(self, "_control", control)
        put(self, "_call_id", message["id"])
        put(self, "_cwd", message["cwd"])
        put(self, "_max_output_bytes", message["max_output_bytes"])
        put(self, "_tool_call_id", message["tool_call_id"])
        put(self, "_parts", {})

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
    def vars(self) -> Variables:
        """The operator's variables that this tool may use."""
        return self._part(Variables)

    @property
    def panels(self) -> Panels:
        """The panels that this tool declares."""
        return self._part(Panels)

    @property
    def interactions(self) -> Interactions:
        """Asks the person at the other end."""
        return self._part(Interactions)

    def _part(self, kind: type[Part]) -> Part:
        known: Part | None = self._parts.get(kind)  # type: ignore[attr-defined]
        if known is None:
            control, call_id = self._control, self._call_id  # type: ignore[attr-defined]
            known = kind(lambda *request: control.ask(call_id, *request))
            self._parts[kind] = known  # type: ignore[attr-defined]
        return known

    def ask(self, method: str, params: dict[str, Any]) -> Any:
        """Ask the supervisor for what only it can do, as some tools of its own must.

        It decides by the call, and answers ``unsupported`` to every other tool.

        Raises:
            VariableError: It refuses; ``code`` and the message say why.
        """
        waiter = Waiter()
        self._control.ask(self._call_id, method, params, waiter)  # type: ignore[attr-defined]
        return waiter.result()

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
