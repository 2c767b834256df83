"""The supervisor's side of one worker's protocol, without I/O.

``send_*`` returns bytes to write, ``receive_data`` takes bytes that were read, ``next_event``
gives what they mean. Which message is allowed when is in ``state.py`` only.
"""

from __future__ import annotations

from enum import Enum
from typing import Any, Final, Literal, TypeAlias

from ..errors import LocalWireError, RemoteWireError
from .frames import FrameReader, violation
from .json_value import Unacceptable
from .messages import Loaded, LoadFailed, Message, Ready, decode_message
from .requests import (
    CLOSE,
    encode_abort,
    encode_call,
    encode_describe,
    encode_load,
    encode_ping,
    encode_reply,
)
from .state import PENDING_STATES, SUPERVISOR, ConnectionState

__all__ = ["NEED_DATA", "Event", "WorkerConnection"]


class _NeedData(Enum):
    NEED_DATA = "NEED_DATA"


NEED_DATA: Final = _NeedData.NEED_DATA
"""``next_event`` has nothing to give until more bytes are received."""

Event: TypeAlias = Message

_UNIDENTIFIED = (Ready, Loaded, LoadFailed)


class WorkerConnection:
    """Protocol state of one worker.

    Args:
        max_frame_bytes: Longest body accepted from the worker, in bytes.
        max_frames_per_call: Requests and progress reports accepted during one call.

    An error that the worker caused raises ``RemoteWireError`` (code ``protocol_violation``,
    or ``worker_closed`` for an unexpected end) and leaves the connection in ``ERROR`` for
    good. An error of the caller raises ``LocalWireError`` and changes nothing.
    """

    __slots__ = (
        "_call_id",
        "_exports",
        "_frames",
        "_last_id",
        "_max_frames",
        "_reader",
        "_state",
    )

    def __init__(self, max_frame_bytes: int, max_frames_per_call: int = 10_000) -> None:
        self._reader = FrameReader(max_frame_bytes)
        self._max_frames = max_frames_per_call
        self._state = ConnectionState.STARTING
        self._call_id = 0
        self._last_id = 0
        self._frames = 0
        self._exports: tuple[str, ...] = ()

    @property
    def state(self) -> ConnectionState:
        """Where the connection is."""
        return self._state

    @property
    def surplus_bytes(self) -> int:
        """Bytes received and not consumed. Beside ``IDLE``: the worker said too much."""
        return self._reader.buffered_bytes

    # -- sending -----------------------------------------------------------

    def send_load(self, *, entry: str, name: str, kind: str) -> bytes:
        """Ask for the import of the plugin, once; ``kind`` is handler or descriptor."""
        after = self._after_send("send_load")
        data = encode_load(entry, name, kind)
        self._state = after
        return data

    def send_call(
        self,
        *,
        id: int,  # noqa: A002 - the protocol's name
        args: Any,
        cwd: str,
        tool_call_id: str,
        max_output_bytes: int,
        result_bytes: int,
        scratch: str,
    ) -> bytes:
        """Call the handler. ``id`` must be above every id used before."""
        after = self._after_send("send_call")
        self._check_new(id)
        data = encode_call(id, args, cwd, tool_call_id, max_output_bytes, result_bytes, scratch)
        self._begin(after, id)
        return data

    def send_describe(
        self,
        *,
        id: int,  # noqa: A002
        fn: str,
        args: Any,
        cwd: str,
    ) -> bytes:
        """Call a descriptor function that the plugin exports."""
        after = self._after_send("send_describe")
        self._check_new(id)
        if fn not in self._exports:
            raise LocalWireError("not_exported", f"the plugin does not export {fn!r:.60}")
        data = encode_describe(id, fn, args, cwd)
        self._begin(after, id)
        return data

    def send_ping(self, *, id: int) -> bytes:  # noqa: A002
        """Ask for a pong."""
        after = self._after_send("send_ping")
        self._check_new(id)
        data = encode_ping(id)
        self._begin(after, id)
        return data

    def send_close(self) -> bytes:
        """Tell the worker to exit."""
        self._state = self._after_send("send_close")
        return CLOSE

    def send_abort(self, *, id: int, reason: str) -> bytes:  # noqa: A002
        """Abort the running call. For the control pipe."""
        self._after_send("send_abort")
        self._check_current(id)
        return encode_abort(id, reason)

    def send_reply(
        self,
        *,
        id: int,  # noqa: A002
        rid: int,
        ok: bool,
        value: Any,
        error: dict[str, str] | None,
    ) -> bytes:
        """Answer a request of the running call. For the control pipe."""
        self._after_send("send_reply")
        self._check_current(id)
        return encode_reply(id, rid, ok, value, error)

    def _after_send(self, event: str) -> ConnectionState:
        after = SUPERVISOR[self._state].get(event)
        if after is None:
            raise LocalWireError("wrong_state", f"{event} is not allowed while {self._state}")
        if self._state is not ConnectionState.CALLING and self._reader.buffered_bytes:
            # Nothing was asked, so nothing may have been said: never begin a call on it.
            self._state = ConnectionState.ERROR
            raise violation(
                f"the worker sent {self._reader.buffered_bytes} bytes that nobody asked for",
                offset=self._reader.offset,
            )
        return after

    def _check_new(self, call_id: int) -> None:
        if call_id <= self._last_id:
            raise LocalWireError("wrong_id", f"the id {call_id} is not above {self._last_id}")

    def _check_current(self, call_id: int) -> None:
        if call_id != self._call_id:
            raise LocalWireError(
                "wrong_id", f"the call {call_id} is not running; {self._call_id} is"
            )

    def _begin(self, after: ConnectionState, call_id: int) -> None:
        self._state = after
        self._call_id = self._last_id = call_id
        self._frames = 0

    # -- receiving ---------------------------------------------------------

    def receive_data(self, data: bytes) -> None:
        """Take bytes that the worker wrote; not empty (see ``closed``)."""
        if self._state is not ConnectionState.ERROR:
            self._reader.feed(data)

    def next_event(self) -> Event | Literal[_NeedData.NEED_DATA]:
        """Return the next message, or ``NEED_DATA``.

        Raises:
            RemoteWireError: The worker broke the protocol; so does every later call.
        """
        if self._state is ConnectionState.ERROR:
            raise violation("the connection has failed before")
        offset = self._reader.offset
        try:
            body = self._reader.next_frame()
            if body is None:
                return NEED_DATA
            kind, message = decode_message(body)
            after = SUPERVISOR[self._state].get(kind)
            if after is None:
                raise Unacceptable(f"{kind!r} is not allowed while {self._state}")
            if self._state in PENDING_STATES:
                self._check_id(message)
        except Unacceptable as exc:
            self._state = ConnectionState.ERROR
            raise violation(str(exc), offset=offset) from None
        except RemoteWireError:
            self._state = ConnectionState.ERROR
            raise
        if after is self._state:
            self._count_frame(offset)
        if type(message) is Loaded:
            self._exports = message.exports
        self._state = after
        return message

    def _check_id(self, message: Message) -> None:
        if isinstance(message, _UNIDENTIFIED):
            return
        if message.id != self._call_id:
            raise Unacceptable(f"a frame is for the call {message.id}; {self._call_id} is running")

    def _count_frame(self, offset: int) -> None:
        self._frames += 1
        if self._frames > self._max_frames:
            self._state = ConnectionState.ERROR
            raise violation(
                f"the worker sent more than {self._max_frames} frames during one call",
                offset=offset,
            )

    def closed(self) -> None:
        """Note the end of the worker's replies.

        Raises:
            RemoteWireError: Code ``worker_closed``: nobody had asked for it, or it came in
                the middle of a frame.
        """
        if self._state is ConnectionState.ERROR:
            return
        after = SUPERVISOR[self._state].get("closed")
        rest = self._reader.buffered_bytes
        if after is not None and not rest:
            self._state = after
            return
        before, self._state = self._state, ConnectionState.ERROR
        detail = f" with {rest} bytes of a frame" if rest else ""
        raise RemoteWireError(
            "worker_closed", f"the worker closed its replies while {before}{detail}"
        )
