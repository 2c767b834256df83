"""Put a worker's file descriptors in place and close everything else.

Invariant: after ``place`` the process holds exactly the targets, 0-2 (opened on
``/dev/null`` when they are no target) and the descriptors named in ``keep``.
"""

from __future__ import annotations

import fcntl
import os

from .syscalls import syscall

__all__ = ["close_except", "place"]

_LAST = 0xFFFFFFFF


def _close_span(first: int, last: int) -> None:
    if first > last:
        return
    try:
        syscall("close_range", first, last, 0)
    except OSError:
        # Before 5.9, or a container's filter that does not know the call.
        for name in os.listdir("/proc/self/fd"):
            number = int(name)
            if first <= number <= last:
                try:
                    os.close(number)
                except OSError:
                    pass  # The descriptor of the listing itself.


def close_except(keep: set[int]) -> None:
    """Close every open descriptor that is not in ``keep``."""
    start = 0
    for number in sorted(keep):
        _close_span(start, number - 1)
        start = number + 1
    _close_span(start, _LAST)


def place(received: list[int], targets: list[int], keep: list[int]) -> list[int]:
    """Move ``received[i]`` to ``targets[i]``; close all but those and ``keep``.

    Args:
        received: Open descriptors, any numbers.
        targets: The numbers they get, inheritable, all different.
        keep: Descriptors needed a little longer.

    Returns:
        The new numbers of ``keep``, close-on-exec and above every target.
    """
    floor = max([*targets, 9]) + 1
    moved = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, floor) for fd in received]
    kept = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, floor) for fd in keep]
    close_except({*moved, *kept})
    for source, target in zip(moved, targets, strict=True):
        os.dup2(source, target, inheritable=True)
        os.close(source)
    for number in (0, 1, 2):
        if number not in targets:
            null = os.open("/dev/null", os.O_RDWR)
            if null != number:
                os.dup2(null, number)
                os.close(null)
            os.set_inheritable(number, True)
    return kept
