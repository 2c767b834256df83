"""The C library and the raw system calls that Python does not wrap.

Every call here raises ``OSError`` with the kernel's errno, never returns -1.
"""

from __future__ import annotations

import ctypes
import os

__all__ = ["ARCH", "LIBC", "NUMBERS", "libc_call", "prctl", "syscall", "write_file"]

ARCH = os.uname().machine
LIBC = ctypes.CDLL(None, use_errno=True)

_SHARED = {
    "open_tree": 428,
    "move_mount": 429,
    "openat2": 437,
    "mount_setattr": 442,
    "close_range": 436,
    "landlock_create_ruleset": 444,
    "landlock_add_rule": 445,
    "landlock_restrict_self": 446,
}
_BY_ARCH = {
    "x86_64": {"seccomp": 317, "capget": 125, "capset": 126, "pivot_root": 155},
    "aarch64": {"seccomp": 277, "capget": 90, "capset": 91, "pivot_root": 41},
}
NUMBERS = {**_SHARED, **_BY_ARCH.get(ARCH, {})}

_syscall = LIBC.syscall
_syscall.restype = ctypes.c_long
_prctl = LIBC.prctl


def syscall(name: str, *arguments: object) -> int:
    """Make a raw system call; integers are passed as 64-bit values."""
    number = NUMBERS.get(name)
    if number is None:
        raise OSError(38, f"no system call number for {name} on {ARCH}")
    wide = [ctypes.c_long(a) if isinstance(a, int) else a for a in arguments]
    result = int(_syscall(ctypes.c_long(number), *wide))
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), name)
    return result


def libc_call(name: str, *arguments: object) -> int:
    """Call a C library function that returns an ``int`` and sets ``errno``."""
    result = int(getattr(LIBC, name)(*arguments))
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), name)
    return result


def prctl(option: int, *arguments: int) -> int:
    """Call ``prctl``; missing arguments are zero, as newer options demand."""
    padded = [ctypes.c_ulong(a) for a in (*arguments, 0, 0, 0, 0)[:4]]
    result = int(_prctl(ctypes.c_int(option), *padded))
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), "prctl")
    return result


def write_file(path: str, text: str) -> None:
    """Write to a file of the kernel's, which takes a value in one call."""
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(fd, text.encode())
    finally:
        os.close(fd)
