"""Values from the environment and from files, and what every value is checked for."""

from __future__ import annotations

import datetime
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..config import VarConfig
from ..config.sources import has_type
from ..fields import type_name
from ..jsontext import JsonTextError, parse, read_regular_file
from .failures import VariableError

__all__ = ["MAX_FILE_BYTES", "check_type", "decode", "format_time", "read_env", "read_file"]

MAX_FILE_BYTES = 65536


def format_time(moment: datetime.datetime) -> str:
    """Return a UTC moment as ISO text with milliseconds."""
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{moment.microsecond // 1000:03d}Z"


def check_type(var: VarConfig, value: Any) -> Any:
    """Return the value, if it is of the declared type.

    Raises:
        VariableError: ``wrong_type``.
    """
    if var.type is None or has_type(value, var.type):
        return value
    raise VariableError(
        "wrong_type",
        f"variable {var.name!r} is declared as {var.type!r} and its value is {type_name(value)}",
        variable=var.name,
    )


def decode(var: VarConfig, data: bytes, what: str) -> str:
    """Decode strict UTF-8.

    Raises:
        VariableError: ``not_utf8``.
    """
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as exc:
        raise VariableError(
            "not_utf8",
            f"variable {var.name!r}: {what} is not UTF-8 at byte {exc.start}",
            variable=var.name,
        ) from None


def read_env(var: VarConfig, environ: Mapping[str, str]) -> str:
    """Return the value of the environment variable that the source names.

    Raises:
        VariableError: ``source_missing`` or ``not_utf8``.
    """
    name = var.source.name or ""
    value = environ.get(name)
    if value is None:
        raise VariableError(
            "source_missing",
            f"variable {var.name!r}: environment variable {name!r} is not set",
            variable=var.name,
        )
    # Undecodable bytes come as lone surrogates.
    return decode(var, os.fsencode(value), f"environment variable {name!r}")


def read_file(var: VarConfig, directory: Path) -> Any:
    """Return the content of the file that the source names: text as it is, or JSON.

    Blocks: run it in a thread.

    Raises:
        VariableError: ``source_missing``, ``source_unreadable``, ``file_too_large``,
            ``not_utf8`` or ``invalid_json``.
    """
    shown = var.source.path or ""
    try:
        data = read_regular_file(directory / shown, MAX_FILE_BYTES)
    except (FileNotFoundError, NotADirectoryError):
        raise _failed(var, "source_missing", f"file {shown!r} does not exist") from None
    except OSError as exc:
        raise _failed(var, "source_unreadable", f"file {shown!r}: {exc.strerror}") from None
    except JsonTextError as exc:
        # Of the file's kind or size: its content was not looked at.
        code = "file_too_large" if exc.code == "file_too_large" else "source_unreadable"
        raise _failed(var, code, f"file {shown!r} {exc.message}") from None
    text = decode(var, data, f"file {shown!r}")
    if var.source.format == "text":
        return text
    try:
        return parse(text, max_bytes=MAX_FILE_BYTES)
    except JsonTextError:
        # Security: the parser's message may quote a key of the file.
        raise _failed(var, "invalid_json", f"file {shown!r} is not strict JSON") from None


def _failed(var: VarConfig, code: str, text: str) -> VariableError:
    return VariableError(code, f"variable {var.name!r}: {text}", variable=var.name)
