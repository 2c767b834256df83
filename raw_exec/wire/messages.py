"""What a worker may say, as frozen values; decoding refuses everything else.

Every map has exactly the keys listed at its decoder, each of exactly the type listed:
an unknown key, a missing key or a ``bool`` for an ``int`` is a violation. Contract: the
worker protocol, version 1, worker → supervisor on fd 4.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from ..limits import MAX_SAFE_INTEGER
from .json_value import Unacceptable, check_value, decode_map

__all__ = [
    "EXPORT_NAMES",
    "PROTOCOL_VERSION",
    "Described",
    "Failed",
    "LeftBehind",
    "LoadFailed",
    "Loaded",
    "Message",
    "Pong",
    "Progress",
    "Ready",
    "Request",
    "Result",
    "WorkerFailure",
    "decode_message",
]

PROTOCOL_VERSION = 1
EXPORT_NAMES = ("handler", "validateArgs", "describeEffects")

_RUNTIMES = frozenset({"node", "python"})
_LOAD_KINDS = frozenset({"import_failed", "missing_handler", "bad_export"})
_CALL_KINDS = frozenset({"threw", "not_serializable", "too_large", "not_synchronous"})
_MAX_CAUSES = 4

# In characters; a worker counts bytes, and the mark of a truncation is inside them.
_MAX_NAME = 256
_MAX_MESSAGE = 8 * 1024
_MAX_STACK = 16 * 1024
_MAX_VERSION = 100
_MAX_METHOD = 200


@dataclass(frozen=True, slots=True)
class WorkerFailure:
    """An error of the plugin, as its worker described it: data, never an exception.

    Args:
        kind: ``threw``, ``not_serializable``, ``too_large``, ``not_synchronous``, or for
            a load ``import_failed``, ``missing_handler``, ``bad_export``.
        name: The error's class, as the plugin calls it; at most 256 characters.
        message: At most 8 KiB; for ``not_serializable`` it begins with a JSON Pointer.
        stack: At most 16 KiB; may be empty.
        cause: What it was caused by, at most four levels.
    """

    kind: str
    name: str
    message: str
    stack: str
    cause: WorkerFailure | None = None


@dataclass(frozen=True, slots=True)
class LeftBehind:
    """What a handler left in its process, counted above the state after the import.

    A hint: the worker measures itself. ``rss_bytes`` is absolute; the ``_changed`` fields
    are 0 or 1.
    """

    timers: int
    handles: int
    listeners: int
    threads: int
    children: int
    fds: int
    rss_bytes: int
    env_changed: int
    cwd_changed: int
    builtins_changed: int

    @property
    def is_clean(self) -> bool:
        """Whether there is nothing beside memory. Written out: it runs after every call."""
        return not (
            self.timers
            or self.handles
            or self.listeners
            or self.threads
            or self.children
            or self.fds
            or self.env_changed
            or self.cwd_changed
            or self.builtins_changed
        )

    @property
    def names(self) -> tuple[str, ...]:
        """What there is beside memory, for a reason to retire; empty when clean."""
        return tuple(n for n in _STATE_NAMES if n != "rss_bytes" and getattr(self, n))


@dataclass(frozen=True, slots=True)
class Ready:
    """The worker runs and speaks this protocol. First, once."""

    version: int
    runtime: str
    runtime_version: str
    pid: int


@dataclass(frozen=True, slots=True)
class Loaded:
    """The plugin was imported; ``exports`` are the contract's functions that it has."""

    exports: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LoadFailed:
    """The plugin could not be imported."""

    error: WorkerFailure


@dataclass(frozen=True, slots=True)
class Result:
    """A handler returned ``value``: checked JSON data, plain and mutable."""

    id: int
    value: Any
    state: LeftBehind


@dataclass(frozen=True, slots=True)
class Failed:
    """A handler or a descriptor function did not return a usable value."""

    id: int
    error: WorkerFailure
    state: LeftBehind


@dataclass(frozen=True, slots=True)
class Described:
    """A descriptor function returned ``value``."""

    id: int
    value: Any


@dataclass(frozen=True, slots=True)
class Request:
    """A running handler asks the supervisor for something."""

    id: int
    rid: int
    method: str
    params: Any


@dataclass(frozen=True, slots=True)
class Progress:
    """A running handler reports something."""

    id: int
    value: Any


@dataclass(frozen=True, slots=True)
class Pong:
    """The answer to a ping."""

    id: int


Message: TypeAlias = (
    Ready | Loaded | LoadFailed | Result | Failed | Described | Request | Progress | Pong
)


def decode_message(body: bytes | memoryview) -> tuple[str, Message]:
    """Decode one frame body into its type and its message.

    Raises:
        Unacceptable: It is not exactly one of the messages.
    """
    fields = decode_map(body)
    kind = fields.get("t")
    if type(kind) is not str:
        raise Unacceptable("the message has no type 't'")
    decoder = _DECODERS.get(kind)
    if decoder is None:
        raise Unacceptable(f"the message type {kind!r:.60} is unknown")
    return kind, decoder(fields)


def _check_keys(fields: dict[Any, Any], keys: frozenset[str], what: str) -> None:
    if fields.keys() == keys:
        return
    unknown = [f"{key!r:.60}" for key in fields if key not in keys]
    missing = sorted(repr(key) for key in keys if key not in fields)
    if unknown:
        raise Unacceptable(f"{what} has the unknown key {unknown[0]}")
    raise Unacceptable(f"{what} lacks the key {missing[0]}")


def _count(fields: dict[Any, Any], name: str) -> int:
    value = fields[name]
    if type(value) is not int or not 0 <= value <= MAX_SAFE_INTEGER:
        raise Unacceptable(f"{name!r} is {value!r:.60}, not a count")
    return value


def _text(fields: dict[Any, Any], name: str, longest: int) -> str:
    value = fields[name]
    if type(value) is not str:
        raise Unacceptable(f"{name!r} is {value!r:.60}, not a string")
    if len(value) > longest:
        raise Unacceptable(f"{name!r} has {len(value)} characters; {longest} are allowed")
    return value


def _json(fields: dict[Any, Any], name: str) -> Any:
    value = fields[name]
    check_value(value)
    return value


_ERROR_KEYS = frozenset({"kind", "name", "message", "stack"})
_ERROR_KEYS_WITH_CAUSE = _ERROR_KEYS | {"cause"}


def _failure(value: object, kinds: frozenset[str], causes: int = _MAX_CAUSES) -> WorkerFailure:
    if type(value) is not dict:
        raise Unacceptable(f"an error is {value!r:.60}, not a map")
    has_cause = "cause" in value
    _check_keys(value, _ERROR_KEYS_WITH_CAUSE if has_cause else _ERROR_KEYS, "an error")
    kind = _text(value, "kind", _MAX_NAME)
    if kind not in kinds:
        raise Unacceptable(f"an error has the unknown kind {kind!r:.60}")
    if has_cause and causes == 0:
        raise Unacceptable(f"an error has more than {_MAX_CAUSES} causes")
    return WorkerFailure(
        kind,
        _text(value, "name", _MAX_NAME),
        _text(value, "message", _MAX_MESSAGE),
        _text(value, "stack", _MAX_STACK),
        _failure(value["cause"], kinds, causes - 1) if has_cause else None,
    )


_STATE_NAMES = tuple(LeftBehind.__dataclass_fields__)
_STATE_KEYS = frozenset(_STATE_NAMES)
_FLAGS = ("env_changed", "cwd_changed", "builtins_changed")


_INTEGERS = {int}
_previous: tuple[dict[str, int], LeftBehind] = ({}, LeftBehind(0, 0, 0, 0, 0, 0, 0, 0, 0, 0))


def _left_behind(value: object) -> LeftBehind:
    global _previous
    if type(value) is not dict:
        raise Unacceptable(f"'state' is {value!r:.60}, not a map")
    if set(map(type, value.values())) == _INTEGERS:
        # Most calls leave what the call before left, and comparing is cheaper than building.
        fields, state = _previous
        if value == fields:
            return state
    _check_keys(value, _STATE_KEYS, "'state'")
    for count in value.values():
        if type(count) is not int or not 0 <= count <= MAX_SAFE_INTEGER:
            raise Unacceptable(f"'state' has {count!r:.60}, not a count")
    for flag in _FLAGS:
        if value[flag] > 1:
            raise Unacceptable(f"{flag!r} is {value[flag]}, not 0 or 1")
    state = LeftBehind(**value)
    _previous = (value, state)
    return state


_READY_KEYS = frozenset({"t", "version", "runtime", "runtime_version", "pid"})
_LOADED_KEYS = frozenset({"t", "exports"})
_LOAD_FAILED_KEYS = frozenset({"t", "error"})
_RESULT_KEYS = frozenset({"t", "id", "value", "state"})
_FAILED_KEYS = frozenset({"t", "id", "error", "state"})
_VALUE_KEYS = frozenset({"t", "id", "value"})
_REQUEST_KEYS = frozenset({"t", "id", "rid", "method", "params"})
_PONG_KEYS = frozenset({"t", "id"})


def _ready(fields: dict[Any, Any]) -> Ready:
    _check_keys(fields, _READY_KEYS, "'ready'")
    version = _count(fields, "version")
    if version != PROTOCOL_VERSION:
        raise Unacceptable(f"the worker speaks version {version}, not {PROTOCOL_VERSION}")
    runtime = _text(fields, "runtime", _MAX_NAME)
    if runtime not in _RUNTIMES:
        raise Unacceptable(f"the runtime {runtime!r:.60} is unknown")
    text = _text(fields, "runtime_version", _MAX_VERSION)
    return Ready(version, runtime, text, _count(fields, "pid"))


def _loaded(fields: dict[Any, Any]) -> Loaded:
    _check_keys(fields, _LOADED_KEYS, "'loaded'")
    exports = fields["exports"]
    if type(exports) is not list or len(exports) > len(EXPORT_NAMES):
        raise Unacceptable(f"'exports' is {exports!r:.60}, not a short list")
    for name in exports:
        if type(name) is not str or name not in EXPORT_NAMES:
            raise Unacceptable(f"'exports' has the unknown name {name!r:.60}")
    if len(set(exports)) != len(exports) or "handler" not in exports:
        raise Unacceptable("'exports' has a name twice, or no handler")
    return Loaded(tuple(exports))


def _load_failed(fields: dict[Any, Any]) -> LoadFailed:
    _check_keys(fields, _LOAD_FAILED_KEYS, "'load_failed'")
    return LoadFailed(_failure(fields["error"], _LOAD_KINDS))


def _result(fields: dict[Any, Any]) -> Result:
    _check_keys(fields, _RESULT_KEYS, "'result'")
    return Result(_count(fields, "id"), _json(fields, "value"), _left_behind(fields["state"]))


def _failed(fields: dict[Any, Any]) -> Failed:
    _check_keys(fields, _FAILED_KEYS, "'failed'")
    error = _failure(fields["error"], _CALL_KINDS)
    return Failed(_count(fields, "id"), error, _left_behind(fields["state"]))


def _described(fields: dict[Any, Any]) -> Described:
    _check_keys(fields, _VALUE_KEYS, "'described'")
    return Described(_count(fields, "id"), _json(fields, "value"))


def _request(fields: dict[Any, Any]) -> Request:
    _check_keys(fields, _REQUEST_KEYS, "'request'")
    method = _text(fields, "method", _MAX_METHOD)
    return Request(_count(fields, "id"), _count(fields, "rid"), method, _json(fields, "params"))


def _progress(fields: dict[Any, Any]) -> Progress:
    _check_keys(fields, _VALUE_KEYS, "'progress'")
    return Progress(_count(fields, "id"), _json(fields, "value"))


def _pong(fields: dict[Any, Any]) -> Pong:
    _check_keys(fields, _PONG_KEYS, "'pong'")
    return Pong(_count(fields, "id"))


_DECODERS: dict[str, Callable[[dict[Any, Any]], Message]] = {
    "ready": _ready,
    "loaded": _loaded,
    "load_failed": _load_failed,
    "result": _result,
    "failed": _failed,
    "described": _described,
    "request": _request,
    "progress": _progress,
    "pong": _pong,
}
