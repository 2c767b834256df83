"""Landlock: which files may be read, changed and executed, by kernel object.

Rights are handled as far as the running kernel knows them; a right that is
handled is denied everywhere unless a rule gives it back. What Landlock does not
stop at any version: ``stat``, ``chdir``, ``chmod`` and ``utimes`` outside the
rules, datagrams, and (before ABI 9) connecting to a pathname unix socket; the
last two are refused by the seccomp filter, the first need a mount namespace.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
import struct
from collections.abc import Iterable

from .syscalls import syscall

__all__ = ["DEVICES", "abi_version", "restrict"]

EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
REMOVE_DIR, REMOVE_FILE, MAKE_CHAR, MAKE_DIR = 1 << 4, 1 << 5, 1 << 6, 1 << 7
MAKE_REG, MAKE_SOCK, MAKE_FIFO, MAKE_BLOCK = 1 << 8, 1 << 9, 1 << 10, 1 << 11
MAKE_SYM, REFER, TRUNCATE, IOCTL_DEV, RESOLVE_UNIX = 1 << 12, 1 << 13, 1 << 14, 1 << 15, 1 << 16

# Version to how many rights it knows; they are numbered without gaps.
_RIGHTS_KNOWN = {1: 13, 2: 14, 3: 15, 5: 16, 9: 17}
_FILE_RIGHTS = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV | RESOLVE_UNIX
_READ = READ_FILE | READ_DIR
_CHANGE = (
    WRITE_FILE | REMOVE_DIR | REMOVE_FILE | MAKE_DIR | MAKE_REG | MAKE_FIFO | MAKE_SYM
    | REFER | TRUNCATE
)  # fmt: skip
_NET = 0b11  # Bind and connect TCP, every port (ABI 4).
_SCOPED = 0b11  # Abstract unix sockets and signals (ABI 6).
_RULE_PATH_BENEATH = 1
_GET_VERSION = 1

DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")


def abi_version() -> int:
    """Ask the kernel for its Landlock version.

    Raises:
        OSError: ``ENOSYS`` when not built in, ``EOPNOTSUPP`` when off at boot.
    """
    return syscall("landlock_create_ruleset", None, 0, _GET_VERSION)


def _handled(abi: int) -> int:
    return (1 << max(count for since, count in _RIGHTS_KNOWN.items() if since <= abi)) - 1


def _allow(ruleset: int, path: str, rights: int) -> None:
    try:
        fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError as exc:
        # A grant of something that is not there, or out of reach, grants nothing.
        if exc.errno in (errno.ENOENT, errno.ENOTDIR, errno.EACCES, errno.ELOOP):
            return
        raise
    try:
        if not stat.S_ISDIR(os.fstat(fd).st_mode):
            rights &= _FILE_RIGHTS
        rule = ctypes.create_string_buffer(struct.pack("=Qi", rights, fd), 12)
        syscall("landlock_add_rule", ruleset, _RULE_PATH_BENEATH, rule, 0)
    except OSError as exc:
        exc.filename = path
        raise
    finally:
        os.close(fd)


def restrict(
    *,
    abi: int,
    read: Iterable[str],
    write: Iterable[str],
    execute: Iterable[str],
    network: bool,
    sockets: bool,
) -> int:
    """Confine this thread, for good. Needs ``no_new_privs``.

    Args:
        abi: What ``abi_version`` said.
        read: Paths readable recursively.
        write: Paths readable and changeable recursively.
        execute: Paths readable and executable recursively.
        network: Leave TCP open.
        sockets: Allow making (and, from ABI 9, reaching) unix sockets in ``write``.

    Returns:
        The ABI in force.
    """
    handled = _handled(abi)
    net = 0 if network or abi < 4 else _NET
    scoped = _SCOPED if abi >= 6 else 0
    attribute = struct.pack("=QQQ", handled, net, scoped)
    size = 24 if abi >= 6 else 16 if abi >= 4 else 8
    ruleset = syscall(
        "landlock_create_ruleset", ctypes.create_string_buffer(attribute[:size], size), size, 0
    )
    try:
        change = _READ | _CHANGE | ((MAKE_SOCK | RESOLVE_UNIX) if sockets else 0)
        rules: dict[str, int] = {}
        for path in read:
            rules[path] = rules.get(path, 0) | _READ
        for path in write:
            rules[path] = rules.get(path, 0) | change
        for path in execute:
            rules[path] = rules.get(path, 0) | _READ | EXECUTE
        for path in DEVICES:
            rules[path] = rules.get(path, 0) | READ_FILE | WRITE_FILE | TRUNCATE
        for path, rights in rules.items():
            _allow(ruleset, path, rights & handled)
        syscall("landlock_restrict_self", ruleset, 0)
    finally:
        os.close(ruleset)
    return abi
