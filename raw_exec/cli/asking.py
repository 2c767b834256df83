"""Finding a person to ask: the terminal of this process, if it has one.

Security: what was typed before a question appeared is thrown away, so that it can't answer
the question. Nothing but a line typed at the terminal answers it: not ``-y``, not input that
is piped in.
"""

from __future__ import annotations

import os
import sys
import termios
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..approval import Answer, ApprovalRequest

__all__ = ["fixed_approver", "terminal_approver"]

_MAX_LINE_BYTES = 4096


def open_terminal() -> int | None:
    """Open the controlling terminal for reading and writing, if we may use it now.

    A background job may not: reading would stop it. Without a controlling terminal,
    standard input and error count when both are one.
    """
    try:
        fd = os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        return _standard_terminal()
    try:
        if os.tcgetpgrp(fd) == os.getpgrp():
            return fd
    except OSError:
        pass  # hung up
    os.close(fd)
    return None


def _standard_terminal() -> int | None:
    if not (os.isatty(0) and os.isatty(2)):
        return None
    try:
        return os.open(os.ttyname(0), os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        return None


def terminal_approver() -> Callable[[ApprovalRequest], Awaitable[Answer]] | None:
    """Return an approver that asks at the terminal, or ``None`` when nobody is there."""
    fd = open_terminal()
    if fd is None:
        return None
    from ..approval import TerminalApprover

    inner = TerminalApprover(lambda text: _write(fd, text), lambda: _read_line(fd))

    async def approve(request: ApprovalRequest) -> Answer:
        sys.stdout.flush()
        termios.tcflush(fd, termios.TCIFLUSH)
        return await inner(request)

    return approve


def fixed_approver(allow: bool) -> Callable[[ApprovalRequest], Answer]:
    """Return an approver that answers as the command line said."""
    from ..approval import Answer

    answer = Answer(True) if allow else Answer(False, "denied by --approve deny")
    return lambda _request: answer


def _write(fd: int, text: str) -> None:
    data = text.encode("utf-8", "backslashreplace")
    while data:
        data = data[os.write(fd, data) :]


def _read_line(fd: int) -> str:
    """Read one line; the descriptor is used directly, since a lock on a buffer that a
    waiting thread holds would end the interpreter with a complaint."""
    line = b""
    while not line.endswith(b"\n") and len(line) < _MAX_LINE_BYTES:
        try:
            chunk = os.read(fd, _MAX_LINE_BYTES)
        except OSError:
            return ""  # hung up
        if not chunk:
            break
        line += chunk
    return line.decode("utf-8", "replace")
