"""``--args`` and its like: strict JSON from the command line, a file or standard input."""

from __future__ import annotations

import os
import sys
from typing import Any

from ..errors import ConfigError
from ..jsontext import JsonTextError, parse, read_regular_file
from ..limits import MAX_ARGUMENT_BYTES

__all__ = ["read_arguments"]


def read_arguments(text: str, *, option: str = "--args") -> Any:
    """Return the JSON value that an option names: itself, ``@file`` or ``-``.

    Args:
        option: For messages about a value that is the text itself.

    Raises:
        ConfigError: ``arguments_unreadable``, or ``arguments_invalid`` with line and column.
    """
    if text == "-":
        where, data = "standard input", _read_stdin()
    elif text.startswith("@"):
        where = os.path.abspath(text[1:])
        data = _read_file(where)
    else:
        where, data = option, os.fsencode(text)
    try:
        return parse(data, max_bytes=MAX_ARGUMENT_BYTES, where=where)
    except JsonTextError as exc:
        raise ConfigError(
            "arguments_invalid",
            exc.message,
            where=where,
            hint=exc.hint or "give one JSON object, @FILE, or - for standard input",
            problems=exc.problems,
        ) from exc


def _read_file(path: str) -> bytes:
    try:
        return read_regular_file(path, MAX_ARGUMENT_BYTES)
    except JsonTextError as exc:
        raise ConfigError("arguments_unreadable", exc.message, where=path) from exc
    except OSError as exc:
        raise ConfigError(
            "arguments_unreadable", f"can not be read: {exc.strerror}", where=path
        ) from exc


def _read_stdin() -> bytes:
    if sys.stdin is None:
        raise ConfigError("arguments_unreadable", "is closed", where="standard input")
    # One more byte than is allowed: the parser's own check then says so.
    data: bytes = sys.stdin.buffer.read(MAX_ARGUMENT_BYTES + 1)
    return data
