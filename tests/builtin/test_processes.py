"""Starting commands of bash, in this process, when something fails meanwhile."""

from __future__ import annotations

import errno
import os
import select
from pathlib import Path

import pytest

from raw_exec.builtin.bash.running.processes import Waker, run_command
from toolbox import footprint

from .calls import Signal

PATIENCE_SECONDS = 20.0


def test_a_failure_after_the_start_ends_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fault: no descriptor is left to watch it with; "not started" must then be true."""
    told = tmp_path / "told"
    os.mkfifo(told)
    open_pidfd = os.pidfd_open
    started: list[int] = []

    def refuse(pid: int, flags: int = 0) -> int:
        started.extend(open_pidfd(who) for who in (pid, int(told.read_text())))
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    before = footprint()
    waker = Waker(Signal())
    monkeypatch.setattr(os, "pidfd_open", refuse)
    with pytest.raises(OSError, match=os.strerror(errno.EMFILE)):
        run_command(
            ["/bin/sh", "-c", f"sleep 1000 & echo $! > {told}; wait"],
            env=dict(os.environ),
            cwd=str(tmp_path),
            timeout_seconds=60,
            capture_bytes=100,
            waker=waker,
        )
    waker.close()
    for fd in started:
        assert select.select([fd], [], [], PATIENCE_SECONDS)[0], "it still runs"
        os.close(fd)
    assert footprint() == before
