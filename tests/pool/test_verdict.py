"""Why a worker ended: from evidence, which is named."""

from __future__ import annotations

import pytest

from raw_exec.pool import ExitNotice, attribute_exit, attribute_failure

HEAP = b"<--- Last few GCs --->\nFATAL ERROR: Reached heap limit Allocation failed\n"


@pytest.mark.parametrize(
    ("notice", "stderr", "code", "evidence"),
    [
        (ExitNotice(code=0), b"", "worker_crashed", "exited without a result"),
        (ExitNotice(code=3), b"", "worker_crashed", "exited without a result"),
        (ExitNotice(signal=11), b"", "worker_crashed", "exit status"),
        (ExitNotice(signal=64), b"", "worker_crashed", "exit status"),
        (ExitNotice(signal=6), HEAP, "memory_limit", "'Reached heap limit' on the worker's stderr"),
        (
            ExitNotice(signal=5),
            b"# Fatal javascript OOM in MemoryChunk allocation failed during deserialization.",
            "memory_limit",
            "'Fatal javascript OOM' on the worker's stderr",
        ),
        # The words alone are no evidence: a worker that lives and exits with 0 had memory.
        (ExitNotice(code=0), HEAP, "worker_crashed", "exited without a result"),
        (
            ExitNotice(signal=9, oom={"source": "cgroup"}),
            b"",
            "memory_limit",
            "out-of-memory kill reported by cgroup",
        ),
        (ExitNotice(signal=9), b"", "worker_crashed", "exit status"),
        (ExitNotice(signal=11, max_rss_bytes=10), b"", "worker_crashed", "exit status"),
        (
            ExitNotice(signal=11, max_rss_bytes=90),
            b"",
            "memory_limit",
            "90 bytes resident of 100 allowed, then SIGSEGV",
        ),
        # A kill from outside is not a failed allocation, whatever the size.
        (ExitNotice(signal=9, max_rss_bytes=90), b"", "worker_crashed", "exit status"),
        (ExitNotice(signal=24, cpu_ms=1000), b"", "timeout", "1000 ms of CPU time used"),
        (
            ExitNotice(signal=9, limit={"name": "scratch_bytes", "limit": 10, "used": 20}),
            b"",
            "output_limit",
            "20 used of 10, measured by the launcher",
        ),
        (
            ExitNotice(signal=9, limit={"name": "pids_max", "limit": 10, "used": 20}),
            b"",
            "worker_crashed",
            "20 used of 10, measured by the launcher",
        ),
    ],
)
def test_an_exit_is_told_by_its_evidence(
    notice: ExitNotice, stderr: bytes, code: str, evidence: str
) -> None:
    """Corpus M01, P08, P09, K16: timeout, crash and out of memory are different things."""
    error = attribute_exit(notice, stderr=stderr, label="agent/t", memory_bytes=100)
    assert (error.code, error.detail["evidence"]) == (code, evidence)
    assert "agent/t" in error.message


def test_a_lost_launcher_is_not_the_plugins_fault() -> None:
    """The call may be tried again, and the outcome says so."""
    error = attribute_exit(ExitNotice(lost=True), stderr=HEAP, label="agent/t")
    assert (error.code, error.detail["launcher"]) == ("worker_crashed", "died")
    assert error.hint is not None


@pytest.mark.parametrize(
    ("name", "message", "is_memory"),
    [
        ("MemoryError", "", True),
        ("RangeError", "Array buffer allocation failed", True),
        ("RangeError", "Invalid array length", False),
        ("Error", "no luck", False),
        ("ValueError", "Array buffer allocation failed", False),
    ],
)
def test_a_caught_memory_error_is_told_from_others(
    name: str, message: str, is_memory: bool
) -> None:
    """A handler that lives on after an allocation failed still ran out of memory."""
    assert (attribute_failure(name, message) is not None) is is_memory
