"""Give up every capability, for good, and read the result back.

Run as uid 0 a worker keeps the uid but none of its powers: files follow the
ordinary permission bits, and the parent's memory and environment are out of
reach. Does not cover: supplementary groups of an ordinary user, which only a
privileged process may drop.
"""

from __future__ import annotations

import ctypes
import errno
import os

from .steps import StepFailed
from .syscalls import prctl, syscall

__all__ = ["drop_capabilities", "drop_groups", "set_no_new_privs"]

_VERSION_3 = 0x20080522
_PR_CAPBSET_READ, _PR_CAPBSET_DROP = 23, 24
_PR_SET_SECUREBITS = 28
_PR_SET_NO_NEW_PRIVS, _PR_GET_NO_NEW_PRIVS = 38, 39
_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL = 47, 4
# NOROOT, NO_SETUID_FIXUP and NO_CAP_AMBIENT_RAISE, each with its lock, and the
# lock of KEEP_CAPS: exec as uid 0 gives nothing back.
_SECUREBITS = 0xEF


def drop_groups() -> bool:
    """Drop supplementary groups when permitted; say whether none is left."""
    if not os.getgroups():
        return True
    try:
        os.setgroups([])
    except PermissionError:
        return False
    return not os.getgroups()


def drop_capabilities() -> bool:
    """Empty all five capability sets of this thread.

    Returns:
        ``True``: effective, permitted, inheritable and ambient are empty. The
        bounding set is emptied where permitted; ``no_new_privs`` makes the rest inert.

    Raises:
        StepFailed: When a capability is still there afterwards.
    """
    try:
        prctl(_PR_SET_SECUREBITS, _SECUREBITS)
    except PermissionError:
        pass  # Needs CAP_SETPCAP; without it there is nothing for exec to give back.
    for capability in range(64):
        try:
            prctl(_PR_CAPBSET_DROP, capability)
        except OSError as exc:
            if exc.errno in (errno.EINVAL, errno.EPERM):
                break  # Past the last capability, or not permitted.
            raise
    try:
        prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL)
    except OSError as exc:
        if exc.errno != errno.EINVAL:  # Kernels before 4.3 have no ambient set.
            raise
    header = (ctypes.c_uint32 * 2)(_VERSION_3, 0)
    syscall("capset", header, (ctypes.c_uint32 * 6)())
    left = (ctypes.c_uint32 * 6)()
    syscall("capget", header, left)
    if any(left):
        raise StepFailed("capabilities", 0, f"still held after the drop: {list(left)}")
    return True


def set_no_new_privs() -> bool:
    """Make setuid bits and file capabilities inert from here on."""
    prctl(_PR_SET_NO_NEW_PRIVS, 1)
    if prctl(_PR_GET_NO_NEW_PRIVS) != 1:
        raise StepFailed("no_new_privs", 0, "the flag did not stay set")
    return True
