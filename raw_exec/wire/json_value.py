"""msgpack to JSON data, refusing everything that the protocol does not allow.

The bytes are hostile. What is bounded, and by what:

* depth: the C decoder stops at about 1,000, ``check_value`` at ``MAX_JSON_DEPTH``;
* values: containers are counted while they are built, everything after;
* memory reserved by a header alone: an array or map longer than the bytes left is refused.

Not told apart, because the decoder does not say: float32 from float64, and the longer
spellings of a number or a length from the shortest.
"""

from __future__ import annotations

from typing import Any, NoReturn

import msgpack

from ..limits import MAX_JSON_DEPTH, MAX_SAFE_INTEGER

__all__ = ["MAX_VALUES", "Unacceptable", "check_value", "decode_map"]

MAX_VALUES = 100_000
"""Values in one frame: 0.1 s of the supervisor's time, and beyond what a model can read.

Also the longest array or map: the decoder reserves 8 bytes an item on a header's word.
"""

_SMALL_BYTES = 16 * 1024
"""A frame this short cannot hold enough values to be worth counting while decoding."""

_MESSAGE_VALUES = 64
"""What the largest message has beside the plugin's value."""

_INFINITY = float("inf")
_unpack = msgpack.unpackb


class Unacceptable(Exception):
    """The bytes are not a message; the text says what is wrong."""


def decode_map(body: bytes | memoryview) -> dict[Any, Any]:
    """Decode exactly one msgpack map.

    Its keys and values are not checked beyond being free of extension types and
    duplicate keys: see ``check_value``.

    Raises:
        Unacceptable: Anything else.
    """
    size = len(body)
    longest = size if size < MAX_VALUES else MAX_VALUES
    count = None if size <= _SMALL_BYTES else _Counter()
    try:
        value = _unpack(
            body,
            raw=False,
            strict_map_key=True,
            object_pairs_hook=_unique if count is None else count.map,
            list_hook=None if count is None else count.list,
            ext_hook=_refuse_extension,
            unicode_errors="strict",
            max_array_len=longest,
            max_map_len=longest,
            max_str_len=size,
            max_bin_len=0,
            max_ext_len=0,
        )
    except Unacceptable:
        raise
    except UnicodeDecodeError as exc:
        raise Unacceptable(f"a string is not UTF-8 at its byte {exc.start}") from None
    except msgpack.exceptions.ExtraData as exc:
        raise Unacceptable(f"{len(exc.extra)} bytes follow the map") from None
    except msgpack.exceptions.StackError:
        raise Unacceptable("the values are nested too deeply") from None
    except (ValueError, TypeError, OverflowError, RecursionError) as exc:
        raise Unacceptable(f"the body is not msgpack: {exc!s:.100}") from None
    except msgpack.exceptions.UnpackException as exc:
        raise Unacceptable(f"the body is not msgpack: {type(exc).__name__}") from None
    if type(value) is not dict:
        raise Unacceptable(f"the body is a {type(value).__name__}, not a map")
    return value


def _unique(pairs: list[tuple[Any, Any]]) -> dict[Any, Any]:
    mapping = dict(pairs)
    if len(mapping) != len(pairs):
        _refuse_duplicate(pairs)
    return mapping


def _refuse_duplicate(pairs: list[tuple[Any, Any]]) -> NoReturn:
    seen = set()
    for key, _ in pairs:
        if key in seen:
            raise Unacceptable(f"a map has the key {key!r:.60} twice")
        seen.add(key)
    raise Unacceptable("a map has a key twice")


def _refuse_extension(code: int, _data: bytes) -> NoReturn:
    raise Unacceptable(f"the body has the extension type {code}")


class _Counter:
    """Counts values while containers are built, to stop a bomb half way.

    An empty container counts once more than its value: it costs as much as a full one.
    """

    __slots__ = ("_left",)

    def __init__(self) -> None:
        self._left = MAX_VALUES + _MESSAGE_VALUES

    def map(self, pairs: list[tuple[Any, Any]]) -> dict[Any, Any]:
        self._take(len(pairs) or 1)
        return _unique(pairs)

    def list(self, items: list[Any]) -> list[Any]:
        self._take(len(items) or 1)
        return items

    def _take(self, items: int) -> None:
        self._left -= items
        if self._left < 0:
            raise Unacceptable(f"the frame holds more than {MAX_VALUES} values")


def check_value(value: object) -> None:
    """Check that a decoded value is JSON data as ``raw_exec.values`` defines it.

    Level by level rather than by recursion: the depth is the number of levels.

    Raises:
        Unacceptable: It is not.
    """
    level: list[Any] = [value]
    values = 1
    for _ in range(MAX_JSON_DEPTH + 1):
        below: list[Any] = []
        for item in level:
            kind = type(item)
            if kind is str or item is None or kind is bool:
                continue
            if kind is dict:
                for key in item:
                    if type(key) is not str:
                        raise Unacceptable(f"a map has the key {key!r:.60}, not a string")
                below.extend(item.values())
            elif kind is list:
                below.extend(item)
            elif kind is int:
                if not -MAX_SAFE_INTEGER <= item <= MAX_SAFE_INTEGER:
                    raise Unacceptable(f"the integer {item} is beyond 2**53-1")
            elif kind is float:
                if not -_INFINITY < item < _INFINITY:
                    raise Unacceptable(f"the number {item!r} is not JSON")
            else:
                raise Unacceptable(f"a value is of type {kind.__name__}, which is not JSON")
        if not below:
            return
        values += len(below)
        if values > MAX_VALUES:
            raise Unacceptable(f"the frame holds more than {MAX_VALUES} values")
        level = below
    raise Unacceptable(f"the value is nested more than {MAX_JSON_DEPTH} deep")
