"""An append-only record of every call, one JSON object a line.

What a record holds is decided here, once: who called what, what decided, what was
enforced and used. Arguments are not in it, only their size and digest, since they may
hold secrets; neither is anything a plugin printed or returned, which leaves the messages
of hooks out of their receipts.

Not covered: a user who can write the file can rewrite it. Ship it elsewhere if that matters.
"""

from __future__ import annotations

import datetime
import fcntl
import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..errors import ConfigError
from .call import Call
from .outcome import ToolResult

__all__ = ["AuditLog", "audit_record", "open_audit"]

_MAX_EFFECTS_BYTES = 16 * 1024
_MAX_TEXT_CHARS = 300
_DETAIL_KEYS = (
    "rule",
    "kind",
    "error",
    "limit",
    "limit_ms",
    "evidence",
    "exit_code",
    "signal",
    "core_dumped",
    "oom",
    "step",
    "errno",
    "violation",
    "crash_loop",
    "launcher",
    "hook",
    "event",
    "receipt",
    "unanswered",
)
"""Facts of ours. What is left out may quote arguments or a plugin."""


def audit_record(call: Call, result: ToolResult, *, principal: str) -> dict[str, Any]:
    """Return the record of one finished call as JSON data."""
    identity = None if call.tool is None else call.tool.identity
    encoded = json.dumps(call.arguments, ensure_ascii=True, sort_keys=True).encode("ascii")
    record: dict[str, Any] = {
        "time": datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds"),
        "tool_call_id": result.tool_call_id,
        "identity": identity,
        "name": call.name[:_MAX_TEXT_CHARS],
        "version": None if call.tool is None else call.tool.manifest.version,
        "digest": None if call.tool is None else call.tool.snapshot.digest,
        "principal": principal,
        "source": call.source,
        "cwd": call.cwd,
        "code": None if result.code is None else result.code[:_MAX_TEXT_CHARS],
        "is_error": result.is_error,
        "origin": result.origin,
        "stage": result.stage,
        "arguments": {"bytes": len(encoded), "sha256": hashlib.sha256(encoded).hexdigest()},
        "effects": _bounded_effects(call.effects),
        "verdict": None if call.evaluation is None else call.evaluation.verdict.name.lower(),
        "detail": _facts(result.detail),
        "hooks": [receipt.facts() for receipt in result.hooks],
        "committed": result.committed,
        "enforced": dict(result.enforced),
        "usage": dict(result.usage),
        "elapsed_ms": round(result.elapsed_ms, 3),
    }
    return record


def _facts(detail: Mapping[str, Any]) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for key in _DETAIL_KEYS:
        if key in detail:
            value = detail[key]
            out[key] = value[:_MAX_TEXT_CHARS] if isinstance(value, str) else value
    if isinstance(out.get("rule"), dict):
        # A matched pointer is a fact; the matched text is not recorded.
        out["rule"] = {k: v for k, v in out["rule"].items() if k in ("index", "match", "effect")}
    return out


def _bounded_effects(effects: Any) -> Any:
    if effects is None:
        return None
    size = len(json.dumps(effects, ensure_ascii=True))
    if size > _MAX_EFFECTS_BYTES:
        return {"omitted_bytes": size}
    return effects


class AuditLog:
    """A file that records are appended to, rotated by size.

    Several processes may append to one file: each record is one write, and rotation
    happens under a lock.

    Args:
        path: The file; made with mode 0600.
        max_bytes: Rotate before a record would make it larger.
        keep: Rotated files kept, ``<path>.1`` the newest.

    Raises:
        ConfigError: Code ``audit_unwritable``.
    """

    def __init__(
        self, path: str | os.PathLike[str], *, max_bytes: int = 16 * 1024 * 1024, keep: int = 5
    ) -> None:
        self._path = Path(os.path.abspath(path))
        self._max_bytes = max_bytes
        self._keep = keep
        self._fd = self._open()

    def _open(self) -> int:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        try:
            return os.open(self._path, flags, 0o600)
        except OSError as exc:
            raise ConfigError(
                "audit_unwritable",
                f"audit log can't be written: {exc.strerror}",
                where=str(self._path),
            ) from exc

    def write(self, record: Mapping[str, Any]) -> None:
        """Append one record.

        Raises:
            OSError: The disk is full, for one. A call must not go on unrecorded where a
                record was asked for, so this is not swallowed.
        """
        line = json.dumps(record, ensure_ascii=True, separators=(",", ":")).encode("ascii") + b"\n"
        fcntl.flock(self._fd, fcntl.LOCK_EX)
        try:
            self._follow_rotation()
            if os.fstat(self._fd).st_size + len(line) > self._max_bytes:
                self._rotate()
            view = memoryview(line)
            while view:
                view = view[os.write(self._fd, view) :]
        finally:
            fcntl.flock(self._fd, fcntl.LOCK_UN)

    def close(self) -> None:
        """Close the file. Idempotent."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def _follow_rotation(self) -> None:
        """Race: another process may have renamed the file while we waited for the lock."""
        while True:
            try:
                there = os.stat(self._path)
            except FileNotFoundError:
                there = None
            ours = os.fstat(self._fd)
            if there is not None and (there.st_dev, there.st_ino) == (ours.st_dev, ours.st_ino):
                return
            self._reopen()

    def _reopen(self) -> None:
        fresh = self._open()
        fcntl.flock(fresh, fcntl.LOCK_EX)
        os.close(self._fd)
        self._fd = fresh

    def _rotate(self) -> None:
        if os.fstat(self._fd).st_size == 0:
            return  # one record larger than the limit is still written whole
        for number in range(self._keep - 1, 0, -1):
            older = Path(f"{self._path}.{number}")
            if older.exists():
                older.replace(f"{self._path}.{number + 1}")
        if self._keep > 0:
            self._path.replace(f"{self._path}.1")
        else:
            self._path.unlink()
        self._reopen()


@contextmanager
def open_audit(given: str | os.PathLike[str] | AuditLog | None) -> Iterator[AuditLog | None]:
    """Give the log that is meant; one that is made of a path here is closed again.

    Raises:
        ConfigError: Code ``audit_unwritable``.
    """
    if given is None or isinstance(given, AuditLog):
        yield given
        return
    log = AuditLog(given)
    try:
        yield log
    finally:
        log.close()
