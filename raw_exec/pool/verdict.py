"""Why a worker ended, from evidence only. Pure functions.

A status alone proves little (an out-of-memory abort and ``process.abort()`` look the
same), so every verdict names the evidence it rests on.
"""

from __future__ import annotations

import signal
from typing import Any

from ..errors import WorkerBroken
from .child import ExitNotice

__all__ = ["attribute_exit", "attribute_failure"]

_V8_MARKS = (
    b"JavaScript heap out of memory",
    b"Reached heap limit",
    b"process OOM",
    b"Fatal process out of memory",
    b"Committing semi space failed",
    b"Fatal javascript OOM",
    b"Fatal JavaScript OOM",
    b"Zone Allocation failed",
    b"std::bad_alloc",
)
_SIGNALS_OF_FAILED_ALLOCATION = (
    signal.SIGSEGV,
    signal.SIGBUS,
    signal.SIGABRT,
    signal.SIGTRAP,
    signal.SIGILL,
)
_GAVE_UP = 70
"""Exit status of a worker's own code when it can't even report."""
_NEARLY_ALL = 0.6
"""Of the allowed memory: address space is counted against the limit before it is touched."""
_MEMORY_MESSAGES = (
    "Array buffer allocation failed",
    "WebAssembly.Memory(): could not allocate memory",
    "could not allocate memory",
    "Allocation failed",
    "can't start new thread",
    "ENOMEM",
)


def attribute_exit(
    notice: ExitNotice,
    *,
    stderr: bytes,
    label: str,
    memory_bytes: int | None = None,
) -> WorkerBroken:
    """Say why a worker ended by itself, before it had answered.

    Args:
        notice: What the launcher reported.
        stderr: What was kept of the worker's stderr.
        label: The tool's identity, for the message.
        memory_bytes: Private memory it was allowed.
    """
    detail: dict[str, Any] = {
        "exit_code": notice.code,
        "signal": _signal_name(notice.signal),
        "core_dumped": notice.core,
    }
    if notice.lost:
        detail["launcher"] = "died"
        return WorkerBroken(
            "worker_crashed",
            f"worker of {label} was lost because the launcher died",
            hint="the launcher is restarted; the call may be tried again",
            detail=detail,
        )
    if notice.oom:
        detail["limit"] = "memory_bytes"
        detail["evidence"] = f"out-of-memory kill reported by {notice.oom.get('source')}"
        return WorkerBroken("memory_limit", f"worker of {label} ran out of memory", detail=detail)
    if notice.limit:
        name, used = str(notice.limit.get("name")), notice.limit.get("used")
        detail["limit"] = name
        detail["evidence"] = f"{used} used of {notice.limit.get('limit')}, measured by the launcher"
        # Files are output too; too many processes have no better name than a crash.
        code = "output_limit" if name == "scratch_bytes" else "worker_crashed"
        return WorkerBroken(code, f"worker of {label} went over {name}", detail=detail)
    mark = next((mark for mark in _V8_MARKS if mark in stderr), None)
    if mark is not None and (notice.signal is not None or notice.code):
        detail["limit"] = "memory_bytes"
        detail["evidence"] = f"{mark.decode()!r} on the worker's stderr"
        return WorkerBroken("memory_limit", f"worker of {label} ran out of memory", detail=detail)
    if (
        (notice.signal in _SIGNALS_OF_FAILED_ALLOCATION or notice.code == _GAVE_UP)
        and memory_bytes is not None
        and notice.max_rss_bytes >= memory_bytes * _NEARLY_ALL
    ):
        # Native code that gets no memory writes to address 0, or gives up, without a word.
        detail["limit"] = "memory_bytes"
        detail["evidence"] = (
            f"{notice.max_rss_bytes} bytes resident of {memory_bytes} allowed, "
            f"then {_signal_name(notice.signal) or f'exit status {notice.code}'}"
        )
        return WorkerBroken("memory_limit", f"worker of {label} ran out of memory", detail=detail)
    if notice.signal == signal.SIGXCPU:
        detail["limit"] = "cpu"
        detail["evidence"] = f"{notice.cpu_ms} ms of CPU time used"
        return WorkerBroken("timeout", f"worker of {label} used up its CPU time", detail=detail)
    detail["evidence"] = "exit status"
    if notice.signal is None:
        detail["evidence"] = "exited without a result"
    return WorkerBroken(
        "worker_crashed", f"worker of {label} {notice.describe()} without a result", detail=detail
    )


def attribute_failure(name: str, message: str) -> dict[str, str] | None:
    """Tell a caught out-of-memory error from any other error of a handler.

    Returns:
        Evidence for ``memory_limit``, or ``None``.
    """
    if name == "MemoryError":
        return {"limit": "memory_bytes", "evidence": "MemoryError raised by the handler"}
    if name in ("RangeError", "Error", "ERR_MEMORY_ALLOCATION_FAILED", "OSError") and any(
        text in message for text in _MEMORY_MESSAGES
    ):
        return {"limit": "memory_bytes", "evidence": f"{name}: {message[:80]}"}
    return None


def _signal_name(number: int | None) -> str | None:
    if number is None:
        return None
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"SIG{number}"
