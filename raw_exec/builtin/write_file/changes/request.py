"""The one parse of ``write_file``'s arguments, and what follows from it without any file.

Invariant: effects and handler both call ``parse_request`` with the same frozen arguments and
the same ``cwd``. It is pure, so what was approved is what is done.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .patch import FileChange, PatchError, parse_patch
from .paths import normalise_path, path_problem

__all__ = ["Operation", "Request", "describe_effects", "find_problem", "parse_request"]

_EXAMPLE = '{"operations":[{"path":"notes.txt","mode":"append","content":"Ship the docs\\n"}]}'
_PATCH_EXAMPLE = (
    '{"patch":"*** Begin Patch\\n*** Update File: a.txt\\n@@\\n-old\\n+new\\n*** End Patch\\n"}'
)


@dataclass(frozen=True, slots=True)
class Operation:
    """One item of ``operations``.

    Args:
        path: As written.
        target: The same, absolute and normalised.
        mode: ``overwrite``, ``append``, ``replace_text`` or ``replace_lines``.
        text: ``content`` or ``new_text``, in UTF-8.
        old: ``old_text`` in UTF-8.
        start_line: First line, from 1.
        end_line: Last line, inclusive.
        expected_sha256: Lower-case hexadecimal digits.
    """

    path: str
    target: str
    mode: str
    text: bytes
    old: bytes = b""
    start_line: int = 0
    end_line: int = 0
    expected_sha256: str = ""


@dataclass(frozen=True, slots=True)
class Request:
    """What a call asks for: operations or sections of a patch; the other is empty."""

    operations: tuple[Operation, ...] = ()
    changes: tuple[FileChange, ...] = ()


def parse_request(args: Any, cwd: str) -> Request:
    """Parse arguments that fit ``input_schema``. Pure.

    Args:
        cwd: Absolute; where relative paths start.

    Raises:
        PatchError: The patch is not in the dialect.
        ValueError: An operation can't be meant as written.
    """
    if "patch" in args:
        return Request(changes=parse_patch(args["patch"], cwd))
    return Request(operations=tuple(_operation(item, cwd) for item in args["operations"]))


def find_problem(args: Any) -> str | None:
    """Return what is wrong with the arguments beyond their schema, with a call that works."""
    try:
        parse_request(args, "/")
    except PatchError as exc:
        return f"{exc}; for example {_PATCH_EXAMPLE}"
    except ValueError as exc:
        return f"{exc}; for example {_EXAMPLE}"
    return None


def describe_effects(args: Any, *, cwd: str) -> dict[str, Any]:
    """Return every path that the call would touch, in order, with what would be done to it.

    Raises:
        ValueError: ``find_problem`` says why.
    """
    request = parse_request(args, cwd)
    files = [{"path": item.target, "operation": "write"} for item in request.operations]
    for change in request.changes:
        if change.new_target is not None:
            files.append({"path": change.target, "operation": "rename_source"})
            files.append({"path": change.new_target, "operation": "rename_destination"})
            if change.changes_content:
                files.append({"path": change.new_target, "operation": "write"})
        else:
            operation = "delete" if change.operation == "delete" else "write"
            files.append({"path": change.target, "operation": operation})
    return {"files": files}


def _operation(item: Any, cwd: str) -> Operation:
    path, mode = item["path"], item["mode"]
    problem = path_problem(path)
    if problem is not None:
        raise ValueError(problem)
    where = f"operation on {path!r:.200}"
    operation = Operation(
        path=path,
        target=normalise_path(path, cwd),
        mode=mode,
        text=item["new_text" if mode == "replace_text" else "content"].encode("utf-8"),
        old=item.get("old_text", "").encode("utf-8"),
        start_line=int(item.get("start_line", 0)),
        end_line=int(item.get("end_line", 0)),
        expected_sha256=item.get("expected_sha256", ""),
    )
    if operation.end_line < operation.start_line:
        raise ValueError(
            f"{where}: end_line {operation.end_line} is before start_line {operation.start_line}"
        )
    return operation
