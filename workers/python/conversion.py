"""From what a handler returned to JSON data, by exact types only.

Accepted: None, bool, int within ±(2**53-1), finite float, str without lone surrogates,
list, tuple (as a list), dict with str keys; nested at most 64 deep. Nothing of the value's
own code runs: a subclass, a mapping or a dataclass is refused, not converted.
"""

from __future__ import annotations

import builtins

from .frames import pack, unpack

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

globals()["__builtins__"] = dict(vars(builtins))

__all__ = ["MAX_NODES", "Unserializable", "encode_value", "plain_value"]

MAX_DEPTH = 64
MAX_NODES = 100_000
MAX_SAFE_INTEGER = 2**53 - 1
MAX_TOKEN_CHARACTERS = 200
_INFINITY = float("inf")


class Unserializable(Exception):
    """The value cannot be sent.

    Args:
        kind: ``"not_serializable"`` or ``"too_large"``.
        message: JSON Pointer of the offending value, and what is wrong with it.
    """

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message


def encode_value(value: object, max_bytes: int) -> bytes:
    """Return the value encoded as msgpack.

    Raises:
        Unserializable: It is not JSON data, or takes more than ``max_bytes`` bytes.
    """
    walk = _Walk(max_bytes)
    plain = walk.copy(value, 0)
    try:
        body: bytes = pack(plain)
    except UnicodeEncodeError:
        walk.refuse_surrogate(plain, 0)
    if len(body) > max_bytes:
        _refuse_size()
    return body


def plain_value(value: object, max_bytes: int) -> Any:
    """Return a copy of JSON data in which nothing is the plugin's, to be packed with more.

    Raises:
        Unserializable: As ``encode_value``.
    """
    encoded = encode_value(value, max_bytes)
    return unpack(encoded)


def _refuse_size() -> NoReturn:
    raise Unserializable("too_large", "the value is larger than the allowed bytes")


class _Walk:
    """One pass over one value; knows where it is, for messages."""

    __slots__ = ("_ancestors", "_budget", "_nodes", "_path")

    def __init__(self, max_bytes: int) -> None:
        self._path: list[str | int] = [""] * (MAX_DEPTH + 1)
        self._ancestors: list[object] = [None] * (MAX_DEPTH + 1)
        self._nodes = 1
        self._budget = max_bytes

    def copy(self, value: Any, depth: int) -> Any:
        kind = type(value)
        if kind is str:
            # Every character takes a byte: stop before a huge copy is built.
            self._budget -= len(value)
            if self._budget < 0:
                _refuse_size()
            return value
        if kind is dict:
            return self._copy_dict(value, depth)
        if kind is list or kind is tuple:
            return self._copy_list(value, depth)
        if value is None or kind is bool:
            return value
        if kind is int:
            if not -MAX_SAFE_INTEGER <= value <= MAX_SAFE_INTEGER:
                self._refuse(depth, "is an integer beyond 2**53-1")
            return value
        if kind is float:
            if not -_INFINITY < value < _INFINITY:
                self._refuse(depth, f"is {value!r}, which JSON cannot express")
            return value or 0.0  # -0.0 leaves as 0
        self._refuse(depth, f"is of type {_name_of(kind)}, which is not JSON data")

    def _copy_dict(self, value: dict[Any, Any], depth: int) -> dict[str, Any]:
        self._enter(value, depth, len(value))
        out = {}
        for key, item in list(value.items()):
            if type(key) is not str:
                self._refuse(depth, f"has a key of type {_name_of(type(key))}, not str")
            self._path[depth] = key
            self._budget -= len(key)
            out[key] = self.copy(item, depth + 1)
        return out

    def _copy_list(self, value: list[Any] | tuple[Any, ...], depth: int) -> list[Any]:
        self._enter(value, depth, len(value))
        out = []
        for index, item in enumerate(tuple(value)):
            self._path[depth] = index
            out.append(self.copy(item, depth + 1))
        return out

    def _enter(self, value: object, depth: int, items: int) -> None:
        self._ancestors[depth] = value
        if depth >= MAX_DEPTH:
            self._refuse_deep()
        self._nodes += items
        if self._nodes > MAX_NODES:
            raise Unserializable("too_large", f"the value has more than {MAX_NODES} parts")

    def _refuse_deep(self) -> NoReturn:
        # A cycle is found as too deep a value: nothing is paid for it before.
        first_at: dict[int, int] = {}
        for depth, ancestor in enumerate(self._ancestors):
            began = first_at.setdefault(id(ancestor), depth)
            if began != depth:
                start = self._pointer(began)
                self._refuse(depth, f"is part of a cycle that began at {start}")
        self._refuse(MAX_DEPTH, f"is nested more than {MAX_DEPTH} deep")

    def refuse_surrogate(self, value: Any, depth: int) -> NoReturn:
        """Raise for the first text that UTF-8 cannot express; there is one."""
        self._find_surrogate(value, depth)
        raise Unserializable("not_serializable", "(root): has a lone surrogate")

    def _find_surrogate(self, value: Any, depth: int) -> None:
        if type(value) is str:
            try:
                value.encode()
            except UnicodeEncodeError as exc:
                self._refuse(depth, f"has a lone surrogate at character {exc.start}")
        elif type(value) is list:
            for index, item in enumerate(value):
                self._path[depth] = index
                self._find_surrogate(item, depth + 1)
        elif type(value) is dict:
            for key, item in value.items():
                self._path[depth] = key
                self._find_surrogate(key, depth + 1)
                self._find_surrogate(item, depth + 1)

    def _pointer(self, depth: int) -> str:
        tokens = [str(token)[:MAX_TOKEN_CHARACTERS] for token in self._path[:depth]]
        escaped = ["/" + token.replace("~", "~0").replace("/", "~1") for token in tokens]
        return "".join(escaped).encode("utf-8", "replace").decode() or "(root)"

    def _refuse(self, depth: int, text: str) -> NoReturn:
        raise Unserializable("not_serializable", f"{self._pointer(depth)}: {text}")


_type_name = type.__dict__["__name__"].__get__


def _name_of(kind: type) -> str:
    name: str = _type_name(kind)
    return name[:MAX_TOKEN_CHARACTERS].encode("utf-8", "replace").decode()
