"""A handler's context without a worker, and folders as values."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from raw_exec.builtin.write_file.changes.run import handler as write_handler

__all__ = ["Context", "Signal", "call_write", "digest", "value_of", "walk"]


@dataclass
class Signal:
    """Says "aborted" from the given look on; never by default."""

    aborts_at_look: int = -1
    looks: int = 0

    @property
    def aborted(self) -> bool:
        self.looks += 1
        return 0 <= self.aborts_at_look <= self.looks

    def add_callback(self, callback: Callable[[], object]) -> None:
        """Forget it: nobody aborts but by a look."""


@dataclass
class Context:
    """What a worker hands to a handler."""

    cwd: str
    max_output_bytes: int = 65536
    signal: Signal = field(default_factory=Signal)
    tool_call_id: str = "c1"


def value_of(result: dict[str, Any]) -> Any:
    """Return the value of a result's one JSON block."""
    (block,) = result["content"]
    assert block["type"] == "json"
    return block["value"]


def digest(data: bytes) -> str:
    """Return a SHA-256 as tools write it."""
    return hashlib.sha256(data).hexdigest()


def walk(root: Path) -> dict[str, Any]:
    """Return everything below a folder by relative path: kind, mode, bytes or link target."""
    found: dict[str, Any] = {}
    for path in sorted(root.rglob("*")):
        mode = path.lstat().st_mode
        if stat.S_ISLNK(mode):
            found[str(path.relative_to(root))] = ("link", os.readlink(path))
        elif stat.S_ISDIR(mode):
            found[str(path.relative_to(root))] = ("folder", stat.S_IMODE(mode))
        else:
            content = path.read_bytes() if stat.S_ISREG(mode) else None
            found[str(path.relative_to(root))] = ("file", stat.S_IMODE(mode), content)
    return found


def call_write(args: Any, root: Path, **context: Any) -> dict[str, Any]:
    """Call the handler of ``write_file`` in this process."""
    return write_handler(args, Context(str(root), **context))
