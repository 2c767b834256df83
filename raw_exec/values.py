"""JSON values as this package passes them around: checked once, then frozen.

Arguments are frozen after parsing so that hooks, the approver and the handler
see one and the same object (seed 1, "Arguments and intended effects").
"""

from __future__ import annotations

import math
from typing import Any, NoReturn, TypeAlias

from .errors import Problem
from .limits import MAX_JSON_DEPTH, MAX_SAFE_INTEGER

__all__ = [
    "FrozenDict",
    "FrozenList",
    "JsonValue",
    "NotJson",
    "escape_pointer",
    "freeze",
    "thaw",
]

JsonValue: TypeAlias = "bool | int | float | str | list[JsonValue] | dict[str, JsonValue] | None"


def _refuse(self: object, *_args: object, **_kwargs: object) -> NoReturn:
    raise TypeError(f"{type(self).__name__} is frozen; use raw_exec.values.thaw() for a copy")


class FrozenDict(dict[str, Any]):
    """A dict that refuses to be changed. Any C code that takes a dict takes it."""

    __slots__ = ()
    __setitem__ = __delitem__ = __ior__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse

    def __copy__(self) -> FrozenDict:
        return self

    def __deepcopy__(self, _memo: object) -> FrozenDict:
        return self


class FrozenList(list[Any]):
    """A list that refuses to be changed. Any C code that takes a list takes it."""

    __slots__ = ()
    __setitem__ = __delitem__ = __iadd__ = __imul__ = _refuse
    append = clear = extend = insert = pop = remove = reverse = sort = _refuse

    def __copy__(self) -> FrozenList:
        return self

    def __deepcopy__(self, _memo: object) -> FrozenList:
        return self


class NotJson(ValueError):
    """A value is outside the JSON data this package accepts."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(str(problem))
        self.problem = problem


def escape_pointer(token: str) -> str:
    """Escape one reference token of a JSON Pointer (RFC 6901 §3)."""
    return token.replace("~", "~0").replace("/", "~1")


def freeze(value: object, *, max_depth: int = MAX_JSON_DEPTH) -> Any:
    """Return a deeply frozen copy of a JSON value.

    Accepted: ``None``, ``bool``, ``int`` within ±(2**53-1), finite ``float``, ``str``
    without lone surrogates, ``list``, and ``dict`` with ``str`` keys, nested at most
    ``max_depth`` deep. Subclasses other than ours are refused, since they can lie.

    Raises:
        NotJson: With the JSON Pointer of the first offending value.
    """
    kind = type(value)
    if kind is FrozenDict or kind is FrozenList:
        return value
    return _freeze(value, kind, max_depth, ())


def _freeze(value: Any, kind: type, depth: int, path: tuple[str, ...]) -> Any:
    if kind is str:
        _check_text(value, path)
        return value
    if kind is dict or kind is FrozenDict:
        if depth <= 0:
            _fail(path, "is nested too deeply")
        out = {}
        for key, item in value.items():
            if type(key) is not str:
                _fail(path, f"has a key that is not a string: {key!r:.60}")
            here = (*path, key)
            _check_text(key, here)
            out[key] = _freeze(item, type(item), depth - 1, here)
        return FrozenDict(out)
    if kind is list or kind is FrozenList:
        if depth <= 0:
            _fail(path, "is nested too deeply")
        return FrozenList(
            [_freeze(v, type(v), depth - 1, (*path, str(i))) for i, v in enumerate(value)]
        )
    if value is None or kind is bool:
        return value
    if kind is int:
        if not -MAX_SAFE_INTEGER <= value <= MAX_SAFE_INTEGER:
            _fail(path, "is an integer beyond 2**53-1, which not every language can hold")
        return value
    if kind is float:
        if not math.isfinite(value):
            _fail(path, f"is {value!r}, which JSON cannot express")
        return value
    _fail(path, f"is a {kind.__name__}, which is not a JSON value")


def _check_text(text: str, path: tuple[str, ...]) -> None:
    if text.isascii():
        return
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as exc:
        _fail(path, f"has a lone surrogate at character {exc.start}")


def _fail(path: tuple[str, ...], message: str) -> NoReturn:
    shown = "".join("/" + escape_pointer(token) for token in path)
    raise NotJson(Problem(shown.encode("utf-8", "replace").decode(), message))


def thaw(value: Any) -> Any:
    """Return a deep, mutable copy of a frozen (or plain) JSON value."""
    if isinstance(value, dict):
        return {key: thaw(item) for key, item in value.items()}
    if isinstance(value, list):
        return [thaw(item) for item in value]
    return value
