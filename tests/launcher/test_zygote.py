"""The process that Python workers are forked from, when it dies again and again."""

from __future__ import annotations

import os
import signal
import socket

import pytest

from workers.launcher import zygote as module
from workers.launcher.protocol import send
from workers.launcher.steps import StepFailed
from workers.launcher.zygote import Zygote


class _Clock:
    now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> _Clock:
    """A clock that stands, and zygotes that start without a process."""
    clock = _Clock()
    monkeypatch.setattr(module, "time", clock)
    monkeypatch.setattr(module, "load_python_worker", lambda _folder: None)
    monkeypatch.setattr(module, "_start_anew", lambda _folder: (1, object()))
    return clock


def _die(zygote: Zygote) -> None:
    zygote._sock = None
    zygote.on_death()


def test_one_that_dies_often_in_a_short_time_is_not_started_again(clock: _Clock) -> None:
    """A fault of the host must not become a fork a second."""
    zygote = Zygote(None)
    for _ in range(5):
        _die(zygote)
        zygote.check()
        clock.now += 1
    _die(zygote)
    with pytest.raises(StepFailed, match="ended 6 times within 60 s; it is tried again later"):
        zygote.check()


def test_a_long_life_with_many_deaths_goes_on(clock: _Clock) -> None:
    """What happened an hour ago says nothing; a runtime may be open for months."""
    zygote = Zygote(None)
    for _ in range(100):
        _die(zygote)
        zygote.check()
        clock.now += 3600


def test_after_a_while_it_is_tried_again(clock: _Clock) -> None:
    """Refused, not given up."""
    zygote = Zygote(None)
    for _ in range(6):
        _die(zygote)
    with pytest.raises(StepFailed):
        zygote.check()
    clock.now += 61
    zygote.check()


def test_a_worker_whose_launcher_is_gone_ends_by_itself() -> None:
    """It waited for its launcher for ever: a process of ours that nobody could end."""
    # This process does not adopt orphans, so the worker finds another parent, as after a death.
    pid, zygote = module._start(module)
    try:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with ours:
            with theirs:
                send(zygote, {}, (theirs.fileno(),))
            ours.settimeout(30)
            assert ours.recv(1024) == b""
    finally:
        zygote.close()
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
