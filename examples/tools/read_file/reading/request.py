"""What ``read_file`` is asked for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = ["FileRange", "find_problem", "parse_request"]

_EXAMPLE = '{"files":[{"path":"README.md","start_line":1,"max_lines":40}]}'


@dataclass(frozen=True, slots=True)
class FileRange:
    """One item of ``files``.

    Args:
        path: As written.
        start_line: First line, from 1.
        max_lines: How many at most, or ``None``.
        max_bytes: How many bytes of text at most, or ``None``.
    """

    path: str
    start_line: int
    max_lines: int | None
    max_bytes: int | None


def parse_request(args: Any) -> tuple[FileRange, ...]:
    """Parse arguments that fit ``input_schema``. Pure.

    Raises:
        ValueError: An item can't be meant as written.
    """
    return tuple(_file_range(item) for item in args["files"])


def find_problem(args: Any) -> str | None:
    """Return what is wrong with the arguments beyond their schema, with a call that works."""
    try:
        parse_request(args)
    except ValueError as exc:
        return f"{exc}; for example {_EXAMPLE}"
    return None


def _file_range(item: Any) -> FileRange:
    path: str = item["path"]
    if not path.strip():
        raise ValueError("a path must not be empty or blank")
    if "\0" in path:
        raise ValueError(f"a path can't hold a NUL character, got {path!r:.200}")
    start = int(item.get("start_line", 1))
    max_lines = item.get("max_lines")
    end = item.get("end_line")
    if end is not None:
        if max_lines is not None:
            raise ValueError(f"{path!r:.200}: give end_line or max_lines, not both")
        if end < start:
            raise ValueError(f"{path!r:.200}: end_line {end} is before start_line {start}")
        max_lines = end - start + 1
    max_bytes = item.get("max_bytes")
    return FileRange(
        path,
        start,
        None if max_lines is None else int(max_lines),
        None if max_bytes is None else int(max_bytes),
    )
