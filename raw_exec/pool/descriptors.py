"""Descriptors that travel with a message."""

from __future__ import annotations

import array
import os
import socket
from collections.abc import Sequence

__all__ = ["close_all", "received", "rights_of"]


def rights_of(fds: Sequence[int]) -> list[tuple[int, int, array.array[int]]]:
    """Return the ancillary data that sends descriptors along."""
    return [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []


def received(ancillary: Sequence[tuple[int, int, bytes]]) -> list[int]:
    """Return the descriptors that came along; they are open, and the caller's."""
    fds = array.array("i")
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            fds.frombytes(data[: len(data) - len(data) % fds.itemsize])
    return list(fds)


def close_all(fds: Sequence[int]) -> None:
    """Close descriptors that nobody wants."""
    for fd in fds:
        os.close(fd)
