"""One worker's life: ready, load, calls, close; in the order of the worker protocol."""

from __future__ import annotations

import atexit
import builtins
import os
import sys
from os import _exit

from .calls import Context, Control, is_awaitable
from .conversion import Unserializable, encode_value
from .failures import describe_exception, failure
from .frames import REQUESTS_FD, FrameSource, die, pack, send_packed
from .leftovers import Leftovers
from .loading import LoadFailed, import_plugin, isolate_imports, open_logs
from .loop import Loop

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn

globals()["__builtins__"] = dict(vars(builtins))

__all__ = ["Session"]

PROTOCOL_VERSION = 1
MAX_DESCRIBED_BYTES = 1024 * 1024
CO_COROUTINE = 0x80
"""Flag of a code object, as in ``inspect``, whose import costs 8 ms."""

_at_exit_count = atexit._ncallbacks


class Session:
    """Serves the requests of one supervisor for one plugin.

    Args:
        workers_folder: Folder of all worker code; its modules are hidden from the plugin.
    """

    def __init__(self, workers_folder: str) -> None:
        self._workers_folder = workers_folder
        self._requests = FrameSource(REQUESTS_FD)
        self._control = Control()
        self._exports: dict[str, Callable[..., Any]] = {}
        self._leftovers: Leftovers | None = None
        self._loop: Loop | None = None
        self._tasks_left = 0
        self._own_hooks = 0
        self._logs: tuple[Any, Any] = (None, None)

    def run(self) -> NoReturn:
        """Serve until the supervisor closes the pipe or says so."""
        isolate_imports(self._workers_folder)
        self._logs = open_logs()
        _send(
            {
                "t": "ready",
                "version": PROTOCOL_VERSION,
                "runtime": "python",
                "runtime_version": "{}.{}.{}".format(*sys.version_info[:3]),
                "pid": os.getpid(),
            }
        )
        while True:
            message = self._requests.read_message()
            if message is None:
                _exit(0)
            self._handle(message)

    def _handle(self, message: dict[str, Any]) -> None:
        match message["t"]:
            case "call":
                self._call(message)
            case "describe":
                self._describe(message)
            case "ping":
                _send({"t": "pong", "id": message["id"]})
            case "load":
                self._load(message)
            case "close":
                _exit(0)
            case other:
                die(f"an unknown message {other!r:.60}")

    def _load(self, message: dict[str, Any]) -> None:
        if self._leftovers is not None:
            die("a second load")
        try:
            self._exports = import_plugin(message["entry"])
        except LoadFailed as exc:
            _send({"t": "load_failed", "error": exc.record})
            return
        if _is_asynchronous(self._exports["handler"]):
            self._open_loop()
        self._leftovers = Leftovers(self._control.threads)
        self._own_hooks = 0
        _send({"t": "loaded", "exports": list(self._exports)})

    def _call(self, message: dict[str, Any]) -> None:
        call_id = message["id"]
        self._control.begin(call_id)
        self._tasks_left = 0
        error: dict[str, Any] | None = None
        body = b""
        try:
            value = self._exports["handler"](message["args"], Context(message, self._control))
            if is_awaitable(value):
                value = self._finish(value)
            body = encode_value(value, message["result_bytes"])
        except Unserializable as exc:
            error = failure(exc.kind, "NotSerializable", exc.message)
        except BaseException as exc:
            # SystemExit and KeyboardInterrupt too: a plugin must not end the loop.
            error = describe_exception("threw", exc)
        self._control.end()
        self._flush_logs()
        if error is None:
            _send_with_value("result", call_id, body, self._state())
        else:
            _send({"t": "failed", "id": call_id, "error": error, "state": self._state()})

    def _describe(self, message: dict[str, Any]) -> None:
        call_id, name = message["id"], message["fn"]
        error: dict[str, Any]
        try:
            if name not in self._exports:
                raise TypeError(f"the plugin exports no {name}")
            more = ({"cwd": message["cwd"]},) if name == "describeEffects" else ()
            value = self._exports[name](message["args"], *more)
            if is_awaitable(value):
                if hasattr(value, "close"):
                    value.close()
                error = failure(
                    "not_synchronous",
                    "NotSynchronous",
                    f"{name} returned an awaitable; it must be synchronous",
                )
            else:
                body = encode_value(value, MAX_DESCRIBED_BYTES)
                _send_with_value("described", call_id, body, None)
                return
        except Unserializable as exc:
            error = failure(exc.kind, "NotSerializable", exc.message)
        except BaseException as exc:
            # As for handlers.
            error = describe_exception("threw", exc)
        _send({"t": "failed", "id": call_id, "error": error, "state": self._state()})

    def _state(self) -> dict[str, int]:
        assert self._leftovers is not None  # noqa: S101 - load comes before call
        own_fds = 0 if self._loop is None else self._loop.fds
        state = self._leftovers.measure(self._control.threads, own_fds, self._tasks_left)
        state["listeners"] = max(0, state["listeners"] - self._own_hooks)
        return state

    def _finish(self, awaitable: Any) -> Any:
        loop = self._loop or self._open_loop()
        try:
            return loop.finish(awaitable, self._control.deliver_with)
        finally:
            self._tasks_left = loop.left

    def _open_loop(self) -> Loop:
        before = _at_exit_count()
        loop = self._loop = Loop()
        self._own_hooks += _at_exit_count() - before
        return loop

    def _flush_logs(self) -> None:
        for log in self._logs:
            try:
                log.flush()
            except BaseException:  # noqa: S112
                # A closed log loses text; it must not fail the call.
                continue


def _is_asynchronous(handler: Callable[..., Any]) -> bool:
    code = getattr(handler, "__code__", None)
    return bool(getattr(code, "co_flags", 0) & CO_COROUTINE)


def _send(message: dict[str, Any]) -> None:
    send_packed(pack(message))


def _send_with_value(kind: str, call_id: int, body: bytes, state: dict[str, int] | None) -> None:
    """Send a message around a value that is encoded already."""
    head = (b"\x83" if state is None else b"\x84") + pack("t") + pack(kind)
    head += pack("id") + pack(call_id) + pack("value")
    tail = b"" if state is None else pack("state") + pack(state)
    send_packed(head, body, tail)
